//! The document of the calls: what the handlers describe plus what all calls have in common, as OpenAPI and as a
//! self-contained page for people.

use api::headers::{IDEMPOTENCY_KEY, RETRY, SESSION, SPACE, title};
use api::query::{Consistency, IfClaimed};
use api::stream::End;
use api::words::ClaimStatus;
use api::{Code, Problem, refusals};
use axum::http::HeaderName;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{Discriminator, ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, Content, ContentBuilder, InfoBuilder, OpenApi, PathItem, Ref, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{PartialSchema as _, ToSchema as _};

const ABOUT: &str = "Replicated leases with fencing tokens, fair wait lines and dispatch. Any node serves any call.\n\n\
    Every command carries a request id, the header Idempotency-Key. A command that is repeated with the same id has no \
    second effect and returns the first outcome. Repeat a call with its id when it got no response or `unknown`.\n\n\
    Durations are in milliseconds. A time whose name ends in `_at_ms` or `_ms` is a time on the cluster clock, not a \
    date; a field next to it has the date.";

/// The groups of the calls.
const TAGS: [(&str, &str); 10] = [
    ("claiming", "Getting a lease on one item, on several, or on the next items of a queue; and the wait line."),
    ("cluster", "Members, leader, backup and rules of the cluster. Most of these calls are for admins."),
    ("events", "What happened in the space, as pages and as a stream."),
    ("holding", "Keeping, extending and ending a lease."),
    ("items", "Creating, finding, showing and cancelling items, and their assignment to an actor."),
    ("operating", "Calls for operators."),
    ("queues", "Queues, their policies and their counts."),
    ("space", "The caller's space."),
    ("workers", "The registry of workers."),
    ("writing", "Changing an item, and reporting, completing or failing the work on it."),
];

/// Adds what no handler describes by itself.
#[must_use]
pub fn complete(mut document: OpenApi) -> OpenApi {
    document.info =
        InfoBuilder::new().title("Tenure").version(env!("CARGO_PKG_VERSION")).description(Some(ABOUT)).build();
    let components = document.components.get_or_insert_with(Components::new);
    // Schemas that only problems, parameters and event streams refer to.
    let mut schemas = vec![
        (String::from("Problem"), Problem::schema()),
        (String::from("ClaimStatus"), ClaimStatus::schema()),
        (String::from("Consistency"), Consistency::schema()),
        (String::from("IfClaimed"), IfClaimed::schema()),
        (String::from("End"), End::schema()),
    ];
    Problem::schemas(&mut schemas);
    for (name, schema) in schemas {
        components.schemas.entry(name).or_insert(schema);
    }
    let tag = |(name, about): (&str, &str)| TagBuilder::new().name(name).description(Some(about)).build();
    document.tags = Some(TAGS.map(tag).to_vec());
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("api_key", SecurityScheme::Http(bearer));
    name_variants(&mut components.schemas);
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations_mut(item) {
            complete_operation(path, method, operation);
        }
    }
    document
}

/// Makes each variant of a tagged union a schema of its own and adds a discriminator: code generators drop variants
/// without a name.
fn name_variants(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut variants = Vec::new();
    for (union, schema) in schemas.iter_mut() {
        let RefOr::T(Schema::OneOf(one_of)) = schema else { continue };
        let Some(tags) = one_of.items.iter().map(tag_of).collect::<Option<Vec<_>>>() else { continue };
        let Some((property, _)) = tags.first() else { continue };
        let mut discriminator = Discriminator::new(property.as_str());
        for (variant, (_, value)) in one_of.items.iter_mut().zip(tags) {
            let name = format!("{union}{}", camel_case(&value));
            let reference = Ref::from_schema_name(name.as_str());
            discriminator.mapping.insert(value, reference.ref_location.clone());
            variants.push((name, std::mem::replace(variant, RefOr::Ref(reference))));
        }
        one_of.discriminator = Some(discriminator);
    }
    schemas.extend(variants);
}

/// The tag of a variant and its value. None: the variant has a name or no tag.
fn tag_of(variant: &RefOr<Schema>) -> Option<(String, String)> {
    match inline(variant)? {
        Schema::Object(object) => object.properties.iter().find_map(|(name, property)| match inline(property)? {
            Schema::Object(tag) => match tag.enum_values.as_deref()? {
                [Value::String(value)] => Some((name.clone(), value.clone())),
                _ => None,
            },
            _ => None,
        }),
        Schema::AllOf(all_of) => all_of.items.iter().find_map(tag_of),
        _ => None,
    }
}

/// `not_found` as `NotFound`.
fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('_').map(word).collect()
}

/// The calls of a path, by method.
fn operations_mut(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| operation.as_mut().map(|operation| (method, operation)))
}

/// Method, path and id of every call.
#[must_use]
pub fn operations(document: &OpenApi) -> Vec<(String, String, String)> {
    let of_path = |(path, item): (&String, &PathItem)| {
        let named = |(method, operation): (&str, &Operation)| {
            (method.to_owned(), path.clone(), operation.operation_id.clone().unwrap_or_default())
        };
        operations_of(item).map(named).collect::<Vec<_>>()
    };
    document.paths.paths.iter().flat_map(of_path).collect()
}

/// Parameters that only some calls take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Takes {
    Query,
    IfMatch,
}

/// Operation ids and the parameters that they take.
#[must_use]
pub fn taking(document: &OpenApi) -> BTreeSet<(String, Takes)> {
    let mut taking = BTreeSet::new();
    for (_, operation) in document.paths.paths.values().flat_map(operations_of) {
        let id = operation.operation_id.clone().unwrap_or_default();
        for parameter in operation.parameters.iter().flatten().filter_map(inline) {
            match parameter.parameter_in {
                ParameterIn::Query => taking.insert((id.clone(), Takes::Query)),
                ParameterIn::Header if parameter.name == "If-Match" => taking.insert((id.clone(), Takes::IfMatch)),
                _ => false,
            };
        }
    }
    taking
}

fn operations_of(item: &PathItem) -> impl Iterator<Item = (&'static str, &Operation)> {
    [("get", &item.get), ("put", &item.put), ("post", &item.post), ("patch", &item.patch), ("delete", &item.delete)]
        .into_iter()
        .filter_map(|(method, operation)| operation.as_ref().map(|operation| (method, operation)))
}

/// The codes that a call may be rejected with, in the order of the checks.
#[must_use]
pub fn refusals_of(operation: &Operation, method: &str) -> Vec<Code> {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let mut codes = refusals::OF_EVERY_CALL.to_vec();
    // Also for a call without a body: if one is sent, it is checked.
    if method != "get" {
        codes.extend(refusals::OF_A_BODY);
    }
    let is_view = method == "get";
    codes.extend(if is_view { refusals::OF_A_VIEW } else { refusals::OF_A_COMMAND });
    codes.extend(refusals::of(id).unwrap_or_default());
    let mut told = Vec::with_capacity(codes.len());
    for code in codes {
        if !told.contains(&code) {
            told.push(code);
        }
    }
    told
}

fn complete_operation(path: &str, method: &str, operation: &mut Operation) {
    let codes = refusals_of(operation, method);
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in &codes {
        by_status.entry(code.status()).or_default().push(code.name());
    }
    for (status, names) in by_status {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let quoted = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let response = ResponseBuilder::new()
            .description(format!("Problem with the code {}", quoted.join(" or ")))
            .content("application/problem+json", content)
            .build();
        operation.responses.responses.insert(status.to_string(), RefOr::T(response));
    }
    let order = codes.iter().map(|code| code.name()).collect::<Vec<_>>();
    let description = operation.description.get_or_insert_default();
    if !description.is_empty() {
        description.push_str("\n\n");
    }
    let _ = write!(description, "Error codes, in the order of the checks: {}.", order.join(", "));
    operation.extensions.get_or_insert_default().insert("x-refusals".into(), order.into());
    if path.starts_with("/v1/") {
        operation.security = Some(vec![SecurityRequirement::new("api_key", Vec::<String>::new())]);
        operation.parameters.get_or_insert_default().extend(headers(method).into_iter().map(RefOr::T));
    }
}

fn headers(method: &str) -> Vec<Parameter> {
    let header = |name: &HeaderName, schema: ObjectBuilder, about: &str| {
        ParameterBuilder::new()
            .name(title(name))
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(about))
            .schema(Some(schema))
            .build()
    };
    let text = |max: usize| {
        let schema = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(max));
        // Visible ASCII without white space at its ends.
        schema.pattern(Some("^[!-~]([ -~]*[!-~])?$"))
    };
    let mut headers = vec![
        header(&SPACE, text(64), "The space. [default: the only space of the API key, otherwise `default`]"),
        header(
            &SESSION,
            text(256),
            "The session: one run of the actor. Requests without the header share one session.",
        ),
    ];
    if method != "get" {
        headers.push(header(
            &IDEMPOTENCY_KEY,
            text(64),
            "The request id. A command that is repeated with the same id has no second effect. [default: a new id]",
        ));
        headers.push(header(
            &RETRY,
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)),
            "Marks a repeat of a request that got no answer: the milliseconds since its first attempt.",
        ));
    }
    headers
}

/// The page for people.
#[must_use]
pub fn page(document: &OpenApi) -> String {
    let mut calls = String::new();
    let mut index = String::new();
    let mut by_tag: BTreeMap<&str, Vec<(&str, &'static str, &Operation)>> = BTreeMap::new();
    for (path, item) in &document.paths.paths {
        for (method, operation) in operations_of(item) {
            let tag = operation.tags.as_ref().and_then(|tags| tags.first()).map_or("", String::as_str);
            by_tag.entry(tag).or_default().push((path, method, operation));
        }
    }
    for (tag, operations) in by_tag {
        let about = TAGS.iter().find(|(name, _)| *name == tag).map_or("", |(_, about)| about);
        let _ = write!(calls, "<h2>{}</h2><p>{}</p>", escape(tag), escape(about));
        let _ = write!(index, "<b>{}</b>", escape(tag));
        for (path, method, operation) in operations {
            let id = operation.operation_id.as_deref().unwrap_or_default();
            let _ = write!(index, "<a href=\"#call-{id}\">{id}</a>");
            write_call(&mut calls, document, path, method, operation);
        }
    }
    let mut codes = String::new();
    for code in Code::ALL {
        let _ = write!(
            codes,
            "<tr id=\"{name}\"><td><code>{name}</code></td><td>{status}</td><td>{title}</td><td>{again}</td><td>{effect}</td></tr>",
            name = code.name(),
            status = code.status(),
            title = escape(code.title()),
            again = if code.may_retry() { "yes" } else { "no" },
            effect = serde_json::to_value(code.took_effect())
                .ok()
                .and_then(|word| word.as_str().map(str::to_owned))
                .unwrap_or_default(),
        );
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Tenure API</title><style>{STYLE}</style><nav><a href=\"#codes\"><b>codes</b></a>{index}</nav>\
         <main><h1>Tenure {version}</h1>{about}<p>For programs: <a href=\"/openapi.json\">/openapi.json</a>.</p>{calls}\
         <h2 id=\"codes\">Error codes</h2><table><tr><th>code<th>status<th>meaning<th>may retry<th>took effect</tr>{codes}</table></main>",
        version = env!("CARGO_PKG_VERSION"),
        about = paragraphs(ABOUT),
    )
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:0;display:flex;color:#222}nav{position:sticky;top:0;height:100vh;\
    overflow:auto;min-width:12em;padding:1em;background:#f4f4f2;box-sizing:border-box}nav a,nav b{display:block;color:#245;\
    text-decoration:none}nav b{margin-top:.8em}main{padding:1em 2em;max-width:60em}table{border-collapse:collapse;margin:.5em 0}\
    td,th{border-bottom:1px solid #ddd;padding:.2em .8em .2em 0;text-align:left;vertical-align:top}code{font-size:.95em}\
    h3{margin-top:2em;border-top:1px solid #ccc;padding-top:1em}.method{text-transform:uppercase;color:#175}";

fn write_call(out: &mut String, document: &OpenApi, path: &str, method: &str, operation: &Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let _ = write!(
        out,
        "<h3 id=\"call-{id}\"><span class=\"method\">{method}</span> <code>{}</code></h3><p><b>{}</b></p>{}",
        escape(path),
        escape(operation.summary.as_deref().unwrap_or_default()),
        paragraphs(operation.description.as_deref().unwrap_or_default()),
    );
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    if !parameters.is_empty() {
        out.push_str("<table><tr><th>parameter<th>in<th></tr>");
        for parameter in parameters.iter().filter_map(inline) {
            let place = match parameter.parameter_in {
                ParameterIn::Path => "path",
                ParameterIn::Header => "header",
                ParameterIn::Cookie => "cookie",
                _ => "query",
            };
            let about = parameter.description.as_deref().unwrap_or_default();
            let _ =
                write!(out, "<tr><td><code>{}</code><td>{place}<td>{}</tr>", escape(&parameter.name), escape(about));
        }
        out.push_str("</table>");
    }
    if let Some(body) = operation.request_body.as_ref().and_then(inline) {
        out.push_str("<p>Request body:</p>");
        write_schema(out, document, body.content.values().next());
    }
    for (status, response) in &operation.responses.responses {
        if let Some(response) = inline(response).filter(|_| status.starts_with('2')) {
            let _ = write!(out, "<p>Response {status}: {}</p>", escape(&response.description));
            write_schema(out, document, response.content.values().next());
        }
    }
}

/// The value, if it is not a reference. Only schemas are referenced in this document.
fn inline<T>(found: &RefOr<T>) -> Option<&T> {
    match found {
        RefOr::T(value) => Some(value),
        RefOr::Ref(_) => None,
    }
}

fn write_schema(out: &mut String, document: &OpenApi, content: Option<&RefOr<Content>>) {
    let schema = content.and_then(inline).and_then(|content| content.schema.as_ref());
    let Some(RefOr::Ref(reference)) = schema else { return };
    let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
    let found = document.components.as_ref().and_then(|components| components.schemas.get(name));
    let Some(json) = found.and_then(|schema| serde_json::to_value(schema).ok()) else { return };
    let mut fields = BTreeMap::new();
    collect_fields(document, &json, &mut fields, 0);
    out.push_str("<table>");
    for (field, about) in fields {
        let _ = write!(out, "<tr><td><code>{}</code><td>{}</tr>", escape(&field), escape(&about));
    }
    out.push_str("</table>");
}

/// The fields of an object and of all schemas that it is composed of.
fn collect_fields(document: &OpenApi, schema: &Value, fields: &mut BTreeMap<String, String>, depth: u32) {
    if depth > 4 {
        return;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let about = field["description"].as_str().unwrap_or_default().to_owned();
        fields.entry(name.clone()).or_insert(about);
    }
    for part in ["allOf", "oneOf"].iter().flat_map(|key| schema[key].as_array().into_iter().flatten()) {
        let referenced = part["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        match referenced {
            Some(name) => {
                let found = document.components.as_ref().and_then(|components| components.schemas.get(name));
                if let Some(json) = found.and_then(|schema| serde_json::to_value(schema).ok()) {
                    collect_fields(document, &json, fields, depth + 1);
                }
            }
            None => collect_fields(document, part, fields, depth + 1),
        }
    }
}

fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|paragraph| format!("<p>{}</p>", escape(paragraph))).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
