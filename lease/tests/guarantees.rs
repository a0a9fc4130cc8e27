//! Every test that docs/GUARANTEES.md names exists.

use test_support::documents;

const GUARANTEES: &str = include_str!("../../docs/GUARANTEES.md");

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let mut named = 0;
    for name in documents::code_spans(GUARANTEES) {
        let Some((file, test)) = name.split_once("::") else { continue };
        assert!(documents::has_test(file, test), "docs/GUARANTEES.md names {name}, and no test has that name");
        named += 1;
    }
    assert!(named > 40, "only {named} tests are named");
}
