// SPDX-License-Identifier: Apache-2.0
//! The paths of the API.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode};
use tokio::sync::broadcast::error::RecvError;

use super::OPENAPI;
use super::feed::{Batch, Hub};
use super::http::{JSON, LINES, OPENMETRICS, Reply, content, not_allowed, refused, stream};
use super::limits::{COUNTS, Limits, MOST_BODY, Slot};
use crate::apps::App;
use crate::request::Verb;
use crate::roster::Standing;

/// A body arrives within this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two lines of a stream without events, by which it is noticed that the caller has gone.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// A caller.
#[derive(Clone)]
pub struct Caller {
    /// Whether it may change something.
    pub may_change: bool,
    /// The limits of its class.
    pub limits: Rc<RefCell<Limits>>,
    /// The manager.
    pub hub: Hub,
}

impl Caller {
    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        let reply = match self.limits.borrow_mut().request(Instant::now()) {
            true => None,
            false => Some(refused(
                StatusCode::TOO_MANY_REQUESTS,
                "there are more requests than are answered in this time",
                "ask less often, or read /v1/events",
            )),
        };
        let reply = match reply {
            Some(reply) => reply,
            None => self.route(request).await,
        };
        COUNTS.add(reply.status().as_u16());
        reply
    }

    async fn route(&self, request: Request<Incoming>) -> Reply {
        let path = request.uri().path().to_string();
        let method = request.method().clone();
        let is_read = method == Method::GET;
        match path.as_str() {
            "/v1/tenants" if method == Method::POST => self.add(request.into_body()).await,
            "/v1/tenants" if !is_read => not_allowed("GET, POST"),
            "/v1/tenants" => {
                content(StatusCode::OK, JSON, self.hub.snapshot().await.tenants_json())
            }
            "/v1/status" | "/v1/metrics" | "/metrics" | "/v1/events" | "/v1/openapi.json"
                if !is_read =>
            {
                not_allowed("GET")
            }
            "/v1/status" => content(StatusCode::OK, JSON, self.hub.snapshot().await.status_json()),
            "/v1/metrics" | "/metrics" => {
                content(StatusCode::OK, OPENMETRICS, self.hub.snapshot().await.metrics())
            }
            "/v1/openapi.json" => content(StatusCode::OK, JSON, OPENAPI),
            "/v1/events" => self.events(),
            path => match path.strip_prefix("/v1/tenants/").filter(|name| !name.contains('/')) {
                Some(name) if method == Method::DELETE => self.remove(name).await,
                Some(name) if is_read => self.one(name).await,
                Some(_) => not_allowed("GET, DELETE"),
                None => {
                    refused(StatusCode::NOT_FOUND, "there is no such path", "see /v1/openapi.json")
                }
            },
        }
    }

    async fn one(&self, name: &str) -> Reply {
        let snapshot = self.hub.snapshot().await;
        let mut tenants = snapshot.tenants.iter();
        match tenants.find(|tenant| tenant.app.name.as_deref() == Some(name)) {
            Some(tenant) => {
                let json = serde_json::to_string(tenant).unwrap_or_default();
                content(StatusCode::OK, JSON, json)
            }
            None => no_tenant(),
        }
    }

    async fn add(&self, body: Incoming) -> Reply {
        if !self.may_change {
            return forbidden();
        }
        let body =
            match tokio::time::timeout(PATIENCE, Limited::new(body, MOST_BODY).collect()).await {
                Ok(Ok(body)) => body.to_bytes(),
                Ok(Err(_)) => {
                    return refused(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        &format!("the body is cut off, or longer than {MOST_BODY} bytes"),
                        "a body is one tenant",
                    );
                }
                Err(_) => {
                    let hint = "send it with the request";
                    return refused(StatusCode::REQUEST_TIMEOUT, "the body does not arrive", hint);
                }
            };
        match serde_json::from_slice::<App>(&body) {
            Ok(app) => self.change(Verb::Submit { app }, StatusCode::CREATED).await,
            Err(error) => refused(
                StatusCode::BAD_REQUEST,
                &format!("this is no tenant: {error}"),
                "see /v1/openapi.json; the keys are those of a file in apps.d",
            ),
        }
    }

    async fn remove(&self, name: &str) -> Reply {
        if !self.may_change {
            return forbidden();
        }
        let reply = self.change(Verb::Remove { name: name.into() }, StatusCode::OK).await;
        if reply.status() != StatusCode::CONFLICT {
            return reply;
        }
        // Looked up after the answer: a tenant that has ended meanwhile is gone for the caller, too.
        let known = self.hub.snapshot().await;
        let is_it = |tenant: &Standing| tenant.app.name.as_deref() == Some(name);
        if known.tenants.iter().any(is_it) { reply } else { no_tenant() }
    }

    async fn change(&self, verb: Verb, done: StatusCode) -> Reply {
        match self.hub.change(verb).await {
            None => refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "the manager is busy with other changes",
                "look whether it was made: GET /v1/tenants; then try again",
            ),
            Some(answer) => match answer.error {
                Some(error) => {
                    refused(StatusCode::CONFLICT, &error, &answer.hint.unwrap_or_default())
                }
                None => content(done, JSON, answer.json()),
            },
        }
    }

    /// One line of JSON an event, until the caller goes.
    fn events(&self) -> Reply {
        let Some(slot) = Slot::stream(&self.limits) else {
            let hint = "close another one";
            return refused(StatusCode::SERVICE_UNAVAILABLE, "there are too many streams", hint);
        };
        let mut events = self.hub.events();
        let (mut send, body) = Channel::<Bytes>::new(4);
        tokio::task::spawn_local(async move {
            let _slot = slot;
            loop {
                let text = match tokio::time::timeout(SIGN_OF_LIFE, events.recv()).await {
                    Ok(Ok(batch)) => lines(&batch),
                    Ok(Err(RecvError::Lagged(count))) => {
                        format!("{{\"missed_batches\":{count}}}\n")
                    }
                    Ok(Err(RecvError::Closed)) => break,
                    Err(_) => "{\"alive\":true}\n".into(),
                };
                if send.send_data(text.into()).await.is_err() {
                    break;
                }
            }
        });
        stream(StatusCode::OK, LINES, body.boxed())
    }
}

fn lines(batch: &Batch) -> String {
    match batch {
        Batch::Line(line) => format!("{line}\n"),
        Batch::Engine(events) => {
            let line = |event| serde_json::to_string(event).unwrap_or_default() + "\n";
            events.iter().map(line).collect()
        }
    }
}

fn no_tenant() -> Reply {
    refused(StatusCode::NOT_FOUND, "there is no tenant of this name", "GET /v1/tenants lists them")
}

fn forbidden() -> Reply {
    refused(
        StatusCode::FORBIDDEN,
        "only root and the members of the admin group may change something",
        "run this as root; `tierline daemon --admin-group` names the group",
    )
}
