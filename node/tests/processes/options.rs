//! Output and exit codes of the command line before a node runs.

use std::fs;
use std::process::Output;
use test_support::world::World;

fn run(world: &World, options: &[&str]) -> Output {
    world.command().args(options).output().unwrap()
}

#[test]
fn check_config_prints_the_settings_and_creates_nothing() {
    let world = World::empty();
    let output = run(&world, &["--node-id", "7", "--data", "d", "--peer-listen", "127.0.0.1:0", "check-config"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("node 7\ndata in d\n"), "{said}");
    assert!(said.contains("starts only with a directory that was used before"), "{said}");
    assert_eq!(fs::read_dir(world.folder()).unwrap().count(), 0);
}

#[test]
fn version_option_prints_name_and_version() {
    let output = run(&World::empty(), &["--version"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), concat!("tenured ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn invalid_options_exit_with_their_own_code_and_an_error_and_change_nothing() {
    let world = World::empty();
    let there = ["--node-id", "1", "--data", "d", "--peer-listen", "127.0.0.1:0"];
    let both = [&there[..], &["--bootstrap", "--join", "127.0.0.1:1"]].concat();
    let slow = [&there[..], &["--bootstrap", "--heartbeat-ms", "900"]].concat();
    let cases: [(&[&str], i32, &str); 6] = [
        (&[], 2, "--node-id is missing"),
        (&["--node-id", "1"], 2, "--data is missing"),
        (&both, 2, "give only one of them"),
        (&slow, 2, "--heartbeat-ms must be"),
        (&["--config", "nowhere.toml"], 2, "nowhere.toml: cannot be read"),
        // Neither --bootstrap nor --join.
        (&there, 1, "d: is empty; give --bootstrap"),
    ];
    for (options, code, expected) in cases {
        let output = run(&world, options);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected), "{options:?}: {said}");
        assert_eq!(output.stdout, b"", "{options:?}");
        let left: Vec<_> = fs::read_dir(world.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, Vec::<std::path::PathBuf>::new(), "{options:?}");
    }
}
