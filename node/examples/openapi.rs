//! Prints the OpenAPI document of the calls, as nodes serve it at `/openapi.json`.

use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    let document = node::edge::rest::document().to_json().map_err(io::Error::other)?;
    writeln!(io::stdout(), "{document}")
}
