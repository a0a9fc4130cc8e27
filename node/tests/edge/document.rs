//! The document and the code say the same.

use api::{Code, refusals};
use node::edge::{document, rest};
use std::collections::BTreeSet;

#[test]
fn every_call_has_a_name_of_its_own_and_its_refusals() {
    let mut names = BTreeSet::new();
    for (method, path, id) in document::operations(&rest::document()) {
        assert!(refusals::of(&id).is_some(), "{method} {path}: {id:?} is not in api::refusals");
        assert!(names.insert(id.clone()), "{id} twice");
    }
}

#[test]
fn every_code_has_an_anchor_on_the_page() {
    let page = document::page(&rest::document());
    for code in Code::ALL {
        let anchor = format!("id=\"{}\"", code.name());
        assert_eq!(page.matches(&anchor).count(), 1, "{anchor}");
    }
}
