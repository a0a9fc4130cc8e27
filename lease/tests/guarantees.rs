//! Every test that docs/GUARANTEES.md names exists.

const GUARANTEES: &str = include_str!("../../docs/GUARANTEES.md");

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let mut named = 0;
    for name in GUARANTEES.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::") else { continue };
        // `node/failover::…` is a test of the crate `node`; without a crate it is one of the rules.
        let (krate, file) = file.split_once('/').unwrap_or(("lease", file));
        let tests = format!("{}/../{krate}/tests", env!("CARGO_MANIFEST_DIR"));
        let folders =
            ["", "scenarios/", "cli/", "cluster/", "processes/", "edge/", "edge_server/", "log/", "peers/", "state/"];
        let places = folders.map(|folder| format!("{tests}/{folder}{file}.rs"));
        let beside_code = format!("{}/../{krate}/src/{file}/tests.rs", env!("CARGO_MANIFEST_DIR"));
        let source: String =
            places.iter().chain([&beside_code]).filter_map(|place| std::fs::read_to_string(place).ok()).collect();
        let is_there = source.contains(&format!("    {test}:\n")) || source.contains(&format!("fn {test}()"));
        assert!(is_there, "docs/GUARANTEES.md names {name}, and no test has that name");
        named += 1;
    }
    assert!(named > 40, "only {named} tests are named");
}
