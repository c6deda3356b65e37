//! Kafka as it really runs: topics with other settings, three brokers, TLS and SASL.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rollcall_model::{Freshness, Region, View};
use rollcall_replicator::ReplicatorConfig;
use rollcall_replicator::config::{Access, Brokers, LogKind};
use rollcall_replicator::feed_log::kafka::KafkaLog;
use rollcall_replicator::feed_log::{FeedLog, Topic};

use crate::broker;
use crate::cluster::{Cluster, PASSWORD, Secured};
use crate::region::{Cell, DEADLINE, Replicator, config, real_clock};

fn is_current(view: &View) -> bool {
    view.freshness(real_clock().now()) == Freshness::Current
}

async fn publisher_of(cell: &Cell, region: &str, brokers: &str) -> Replicator {
    Replicator::start(KafkaLog::open, config(region, LogKind::Kafka, brokers, Some(cell), &[]), None).await
}

async fn follower_of(region: &str, follows: &str, brokers: &str) -> Replicator {
    Replicator::start(KafkaLog::open, config(region, LogKind::Kafka, brokers, None, &[follows]), None).await
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", brokers).create().expect("a client")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_somebody_changed_is_left_alone_and_told() {
    let (broker, _shared) = broker::shared().await;
    let region = Region::parse("drift-east").expect("a region");
    let made = broker.log().ensure(&region).await.expect("made");
    assert_eq!(made, [], "as it was made it does not drift");
    let feed = Topic::feed(&region);
    let change = AlterConfig::new(ResourceSpecifier::Topic(feed.name())).set("retention.ms", "1000");
    admin(&broker.brokers).alter_configs(&[change], &AdminOptions::new()).await.expect("asked");

    let east = Cell::start("drift-east").await;
    let a = publisher_of(&east, "drift-east", &broker.brokers).await;
    // Everything else that was said for the topic is gone with the change: the broker's own defaults are there now.
    a.figure_when("rollcall_replicator_topic_drift", &[], 1.0).await;
    let told = broker.log().ensure(&region).await.expect("there");
    let words: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert!(words.contains(&"feed.drift-east.v1: retention.ms is 1000, not 86400000".into()), "{words:?}");
    let ready = a.get("/readyz?verbose").await;
    assert!(ready.contains("topic feed.drift-east.v1: retention.ms is 1000, not 86400000"), "{ready}");
    a.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f27_of_three_brokers_one_dies_and_one_freezes_and_the_feed_has_no_hole() {
    let cluster = tokio::task::block_in_place(|| Cluster::of(3));
    let east = Cell::start("three-east").await;
    let a = publisher_of(&east, "three-east", &cluster.brokers).await;
    let b = follower_of("three-west", "three-east", &cluster.brokers).await;
    east.change(|origin| drop(origin.put("ops/mail/0")));
    b.converges(&east).await;
    let feed = Topic::feed(&Region::parse("three-east").expect("a region"));
    let (leader, others) = tokio::task::block_in_place(|| cluster.leader(feed.name()));
    let change = |n: u32| east.change(|origin| drop(origin.put(&format!("ops/mail/{}", n % 100))));
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for n in 0..200 {
        if n == 50 {
            cluster.signal(leader, "KILL");
        }
        ticks.tick().await;
        change(n);
    }
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "two of three have every record: the chain went on");
    b.view_when("three-east", "a view that is current on two brokers", is_current).await;

    // One that answers is fewer than a record needs: nothing is taken, and nothing that was taken is lost.
    tokio::task::block_in_place(|| cluster.signal(others[0], "STOP"));
    let aged = async {
        let mut n = 0;
        while is_current(&b.view("three-east")) {
            n += 1;
            change(n);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, aged).await.expect("the view aged while too few brokers answered");
    assert!(b.view("three-east").state().is_some(), "I36: the last copy stays");
    tokio::task::block_in_place(|| cluster.signal(others[0], "CONT"));
    let view = b.converges(&east).await;
    assert_eq!(view.resyncs(), 0, "I33: the chain went on");
    b.view_when("three-east", "a view that is current again", is_current).await;
    a.stop().await;
    b.stop().await;
    east.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_behind_tls_and_sasl_is_published_to_and_followed() {
    let secured = tokio::task::block_in_place(Secured::start);
    let said = |text: &str| Some(text.to_owned());
    let scram = Access {
        security_protocol: said("sasl_ssl"),
        sasl_mechanism: said("SCRAM-SHA-512"),
        sasl_username: said("us-east"),
        sasl_password: said(PASSWORD),
        ssl_ca_location: Some(secured.file("broker.pem")),
        ..Access::default()
    };
    let mutual = Access {
        security_protocol: said("ssl"),
        ssl_ca_location: Some(secured.file("broker.pem")),
        ssl_certificate_location: Some(secured.file("us-east.pem")),
        ssl_key_location: Some(secured.file("us-east.key")),
        ..Access::default()
    };
    let start = |config: ReplicatorConfig| {
        // These keep no copy; whoever is deployed names a place for it.
        let deployed = ReplicatorConfig { data_dir: "data".into(), ..config.clone() };
        deployed.check_alone().expect("good settings");
        Replicator::start(KafkaLog::open, config, None)
    };
    let east = Cell::start("tls-east").await;
    east.change(|origin| drop(origin.put("ops/mail/0")));
    let mut publishing = config("tls-east", LogKind::Kafka, &secured.sasl, Some(&east), &[]);
    publishing.kafka = scram.clone();
    let mut following = config("tls-west", LogKind::Kafka, &secured.tls, None, &["tls-east"]);
    following.follow[0].kafka = Some(mutual.clone());
    let (a, b) = (start(publishing).await, start(following).await);
    b.converges(&east).await;
    b.view_when("tls-east", "a view that is current", is_current).await;

    // Whom the brokers do not let in gets nothing, and says so; it does not fall back to plain text.
    let strangers = [
        (&secured.sasl, Access { sasl_password: said("wrong"), ..scram.clone() }),
        (&secured.sasl, Access { ssl_ca_location: Some(secured.file("us-east.pem")), ..scram }),
        (&secured.tls, Access { ssl_certificate_location: None, ssl_key_location: None, ..mutual }),
        (&secured.tls, Access::default()),
    ];
    for (list, access) in strangers {
        let stranger =
            KafkaLog::open(&Brokers { list: list.clone(), access: access.clone() }).expect("a client");
        let region = Region::parse("tls-east").expect("a region");
        let answer = stranger.ends(&Topic::feed(&region)).await;
        assert!(answer.is_err(), "{access:?} was let in: {answer:?}");
    }
    a.stop().await;
    b.stop().await;
    east.stop().await;
}
