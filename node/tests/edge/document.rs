//! The OpenAPI document matches the code and suits code generators.

use super::contract::texts;
use api::limits::{COUNT_MAX, PAGE_MAX, POLL_MAX};
use api::{Code, refusals};
use node::edge::{self, rest};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn document() -> Value {
    serde_json::to_value(rest::document()).unwrap()
}

#[test]
fn every_call_has_a_unique_name_and_documented_refusals() {
    let mut names = BTreeSet::new();
    for (method, path, id) in edge::document::operations(&rest::document()) {
        assert!(refusals::of(&id).is_some(), "{method} {path}: {id:?} is not in api::refusals");
        assert!(names.insert(id.clone()), "{id} twice");
    }
}

#[test]
fn every_call_has_a_summary_and_every_response_a_description() {
    let document = document();
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

#[test]
fn every_group_of_calls_is_described() {
    let document = document();
    let tags = document["tags"].as_array().unwrap();
    let described: BTreeSet<&str> = tags
        .iter()
        .filter(|tag| tag["description"].as_str().is_some_and(|text| !text.is_empty()))
        .filter_map(|tag| tag["name"].as_str())
        .collect();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let used: BTreeSet<&str> = operations.flat_map(|operation| texts(&operation["tags"])).collect();
    assert_eq!(used, described);
}

/// Calls `see` for every object in a document.
fn walk(value: &Value, see: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(fields) => {
            see(value);
            fields.values().for_each(|field| walk(field, see));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| walk(entry, see)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    let document = document();
    let mut seen = 0;
    walk(&document, &mut |object| {
        let Some(reference) = object["$ref"].as_str() else { return };
        let found = document.pointer(reference.strip_prefix('#').unwrap());
        assert!(found.is_some(), "{reference}");
        seen += 1;
    });
    assert!(seen > 500, "{seen} references");
}

/// A schema or null is a field that may be missing, and no union. Code generators keep it.
#[test]
fn only_named_schemas_are_unions() {
    let document = document();
    let mut nested = 0;
    walk(&document, &mut |object| {
        assert!(object["anyOf"].is_null(), "{object}");
        let Some(variants) = object["oneOf"].as_array() else { return };
        let is_null = |variant: &&Value| variant["type"] == "null";
        if object["discriminator"].is_null() {
            assert!(variants.len() == 2 && variants.iter().filter(is_null).count() == 1, "{object}");
            assert!(variants.iter().filter(|variant| !is_null(variant)).all(|variant| variant["$ref"].is_string()));
            nested += 1;
        }
    });
    assert!(nested > 10, "{nested} optional references");
}

#[test]
fn documented_limits_are_those_that_nodes_check() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let poll = u64::try_from(POLL_MAX.as_millis()).unwrap();
    for (schema, field) in [("Claim", "poll_ms"), ("Next", "wait_ms")] {
        assert_eq!(schemas[schema]["properties"][field]["maximum"], poll, "{schema}");
    }
    assert_eq!(schemas["Next"]["properties"]["count"]["maximum"], COUNT_MAX);
    let mut limits = 0;
    for operation in document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values())
    {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let max = match parameter["name"].as_str().unwrap() {
                "limit" => json!(PAGE_MAX),
                "wait_ms" => json!(poll),
                "count" => json!(COUNT_MAX),
                _ => continue,
            };
            assert_eq!(parameter["schema"]["maximum"], max, "{parameter}");
            limits += 1;
        }
    }
    assert!(limits >= 6, "{limits} limits");
}

/// Code generators drop union variants without a name.
#[test]
fn every_union_variant_has_a_name_and_a_discriminator_value() {
    let document = document();
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
    for name in ["Claimed", "CreatedOf", "Dispatched", "End", "ReleasedOf"] {
        assert!(unions.contains(name), "{name} is not a union: {unions:?}");
    }
}

#[test]
fn every_code_has_an_anchor_on_the_page() {
    let page = edge::document::page(&rest::document());
    for code in Code::ALL {
        let anchor = format!("id=\"{}\"", code.name());
        assert_eq!(page.matches(&anchor).count(), 1, "{anchor}");
    }
}
