//! The command `tenure`.

mod command;

fn main() -> std::process::ExitCode {
    command::main()
}
