//! The OpenAPI document, made from the table of routes and the types of bodies and answers.

use http::StatusCode;
use redrive_core::wire;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::limits::ATTEMPT_MAX;
use crate::query::ParamKind;
use crate::router::ApiRoute;
use crate::routes::table;

const PROBLEM: &str = "application/problem+json";

const DESCRIPTION: &str = "Every string, list, map and number of a request has a maximum. Lengths are bytes of the text in \
     UTF-8; a larger value is refused with 422 `invalid_field`, `field` and `max`. `x-cut-bytes` and `x-cut-properties` mark \
     evidence that is cut instead, as `truncated` on the attempt says. `x-bounded-by` marks free JSON and bytes, which only the \
     limit of the body bounds.";

/// OpenAPI 3.1, deterministic down to the order of keys.
pub fn openapi() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let routes = table();
    let paths = paths(&routes, &mut generator);
    let problem = problem_response(&mut generator);
    sorted(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The dead letter queue and recovery pipeline for AI agent work.",
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags(&routes),
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": { "Problem": problem },
            "securitySchemes": { "key": {
                "type": "http",
                "scheme": "bearer",
                "description": "A key made by `redrive keys create` or `POST /v1/keys`.",
            } },
        },
    }))
}

fn paths(routes: &[ApiRoute], generator: &mut SchemaGenerator) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_ascii_lowercase()] = operation(route, generator);
    }
    Value::Object(paths)
}

fn operation(route: &ApiRoute, generator: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "tags": [route.tag()],
        "parameters": parameters(route),
        "responses": responses(route, generator),
    });
    if let Some(roles) = route.roles {
        let words: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        operation["security"] = json!([{ "key": [] }]);
        operation["description"] = format!("Roles: {}.", words.join(", ")).into();
        operation["x-roles"] = json!(words);
    } else {
        operation["security"] = json!([]);
    }
    if !route.request.is_empty() {
        let content: Map<String, Value> = route
            .request
            .iter()
            .map(|(media, schema)| ((*media).to_owned(), json!({ "schema": schema(generator) })))
            .collect();
        operation["requestBody"] = json!({ "required": route.request_required, "content": content });
    }
    operation
}

/// `POST /v1/runs/{run_id}/fail` is `post_runs_run_id_fail`.
fn operation_id(route: &ApiRoute) -> String {
    let path = route.path.trim_start_matches("/v1").trim_start_matches("/api/v1");
    let words = path.split(['/', '.', '{', '}']).filter(|word| !word.is_empty());
    std::iter::once(route.method.as_str().to_ascii_lowercase())
        .chain(words.map(str::to_owned))
        .collect::<Vec<_>>()
        .join("_")
}

fn parameters(route: &ApiRoute) -> Vec<Value> {
    let in_path = route.path_params().map(|name| {
        let schema = match name {
            "attempt" | "revision" => ParamKind::Number { min: 1, max: ATTEMPT_MAX.into() },
            _ => ParamKind::Id,
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema.schema() })
    });
    let in_query = route.params.iter().map(|param| {
        json!({ "name": param.name, "in": "query", "required": false, "description": param.about,
                "schema": param.kind.schema() })
    });
    in_path.chain(in_query).collect()
}

fn responses(route: &ApiRoute, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    for status in route.success {
        let content: Map<String, Value> = route
            .answer_media
            .iter()
            .map(|media| ((*media).to_owned(), json!({ "schema": (route.answer)(generator) })))
            .collect();
        responses.insert(status.to_string(), json!({ "description": reason(*status), "content": content }));
    }
    responses.insert("default".into(), json!({ "$ref": "#/components/responses/Problem" }));
    Value::Object(responses)
}

fn reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Answer")
}

fn problem_response(generator: &mut SchemaGenerator) -> Value {
    let schema = generator.subschema_for::<wire::Problem>();
    json!({
        "description": "The request was refused. `code` says why and does not change between versions.",
        "content": { PROBLEM: { "schema": schema } },
    })
}

fn tags(routes: &[ApiRoute]) -> Vec<Value> {
    let mut tags: Vec<&str> = routes.iter().map(ApiRoute::tag).collect();
    tags.sort_unstable();
    tags.dedup();
    tags.into_iter().map(|tag| json!({ "name": tag })).collect()
}

/// Sorts keys, whatever map type serde_json is built with.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` in the document, with where it points.
    fn refs<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| refs(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| refs(value, found)),
            _ => {}
        }
    }

    #[test]
    fn openapi_references_resolve_and_operation_ids_are_unique() {
        let document = openapi();
        let mut found = Vec::new();
        refs(&document, &mut found);
        assert!(found.len() > 50);
        for target in found {
            assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
        }
        let mut ids: Vec<String> = table().iter().map(operation_id).collect();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn the_openapi_document_is_deterministic() {
        assert_eq!(openapi().to_string(), openapi().to_string());
    }

    #[test]
    fn an_operation_names_its_roles_and_parameters() {
        let document = openapi();
        let put = &document["paths"]["/v1/queues/{name}"]["put"];
        insta::assert_json_snapshot!(put, @r##"
        {
          "description": "Roles: admin.",
          "operationId": "put_queues_name",
          "parameters": [
            {
              "in": "path",
              "name": "name",
              "required": true,
              "schema": {
                "maxLength": 200,
                "pattern": "^[A-Za-z0-9._:@-]{1,200}$",
                "type": "string"
              }
            }
          ],
          "requestBody": {
            "content": {
              "application/json": {
                "schema": {
                  "$ref": "#/components/schemas/QueueSettings"
                }
              }
            },
            "required": true
          },
          "responses": {
            "200": {
              "content": {
                "application/json": {
                  "schema": {
                    "$ref": "#/components/schemas/QueueView"
                  }
                }
              },
              "description": "OK"
            },
            "default": {
              "$ref": "#/components/responses/Problem"
            }
          },
          "security": [
            {
              "key": []
            }
          ],
          "summary": "Set a queue",
          "tags": [
            "queues"
          ],
          "x-roles": [
            "admin"
          ]
        }
        "##);
    }
}
