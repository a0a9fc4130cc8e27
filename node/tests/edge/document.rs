//! The OpenAPI document matches the code and suits code generators.

use api::{Code, refusals};
use node::edge::{document, rest};
use serde_json::Value;
use std::collections::BTreeSet;

fn json() -> Value {
    serde_json::to_value(rest::document()).unwrap()
}

#[test]
fn every_call_has_a_unique_name_and_documented_refusals() {
    let mut names = BTreeSet::new();
    for (method, path, id) in document::operations(&rest::document()) {
        assert!(refusals::of(&id).is_some(), "{method} {path}: {id:?} is not in api::refusals");
        assert!(names.insert(id.clone()), "{id} twice");
    }
}

#[test]
fn every_call_has_a_summary_and_every_response_a_description() {
    let document = json();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_said = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
            assert!(is_said(&operation["summary"]), "{method} {path}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(is_said(&response["description"]), "{method} {path}: {status}");
            }
        }
    }
}

/// Code generators drop union variants without a name.
#[test]
fn every_union_variant_has_a_name_and_a_discriminator_value() {
    let document = json();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut unions = BTreeSet::new();
    for (name, schema) in schemas {
        let Some(variants) = schema["oneOf"].as_array() else { continue };
        let mapping = schema["discriminator"]["mapping"].as_object().unwrap_or_else(|| panic!("{name}: {schema}"));
        let named: BTreeSet<&str> = variants.iter().filter_map(|variant| variant["$ref"].as_str()).collect();
        let mapped: BTreeSet<&str> = mapping.values().filter_map(Value::as_str).collect();
        assert_eq!(named.len(), variants.len(), "{name}: {schema}");
        assert_eq!(named, mapped, "{name}");
        for reference in named {
            let variant = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(schemas.contains_key(variant), "{name}: {variant}");
        }
        unions.insert(name.as_str());
    }
    for name in ["Claimed", "CreatedOf", "Dispatched", "ReleasedOf"] {
        assert!(unions.contains(name), "{name} is not a union: {unions:?}");
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
