// SPDX-License-Identifier: Apache-2.0
//! Answers.

use std::convert::Infallible;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;

pub const JSON: &str = "application/json";
pub const LINES: &str = "application/x-ndjson";
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The body of an answer, complete or a stream.
pub type Body = BoxBody<Bytes, Infallible>;
/// An answer.
pub type Reply = Response<Body>;

/// An answer with content.
pub fn content(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Reply {
    let body = Full::new(text.into());
    stream(status, kind, body.boxed())
}

/// An answer with this body.
pub fn stream(status: StatusCode, kind: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// A request that is not carried out.
pub fn refused(status: StatusCode, error: &str, hint: &str) -> Reply {
    #[derive(Serialize)]
    struct Refusal<'a> {
        error: &'a str,
        hint: &'a str,
    }
    let json = serde_json::to_string(&Refusal { error, hint }).unwrap_or_default();
    let mut reply = content(status, JSON, json);
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// A method that a path does not have.
pub fn not_allowed(allowed: &'static str) -> Reply {
    let error = "this path does not have this method";
    let mut reply = refused(StatusCode::METHOD_NOT_ALLOWED, error, "see /v1/openapi.json");
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}
