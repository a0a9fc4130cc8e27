//! Runs the example of a guarded file: a holder that lost its lease overwrites the unguarded file, but not the guarded
//! one.

#[path = "../examples/fenced_file.rs"]
mod example;

#[test]
fn a_late_write_replaces_an_unguarded_file_and_is_rejected_by_a_guarded_one() {
    let folder = tempfile::tempdir().unwrap();
    let (unguarded, guarded) = example::late_write(folder.path()).unwrap();
    assert_eq!(unguarded, "ada's, who lost it");
    assert_eq!(guarded, "bob's, who holds it");
}
