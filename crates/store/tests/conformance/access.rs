//! Keys with their limits, rotation and use; portal links.

use redrive_core::access::{KeyLimits, KeyScope};
use redrive_core::time::DAY_MS;
use redrive_core::wire::Role;
use redrive_engine::{Actor, Error, KeyRecord, KeyRotation, KeyUse, PORTAL_LINKS_PER_TENANT_MAX, PortalLinkRecord};

use crate::world::World;

fn ops() -> Actor {
    "admin:ops".into()
}

fn key(world: &World, n: u8, role: Role) -> KeyRecord {
    let tenant = (role == Role::Worker).then(|| "acme".parse().unwrap());
    KeyRecord::new(format!("key-{n}"), [n; 32], role, tenant, world.store.now())
}

async fn found(world: &World, hash: [u8; 32]) -> KeyRecord {
    world.store.key_by_hash(hash).await.unwrap().unwrap()
}

fn rotation(n: u8, overlap_ms: u64) -> KeyRotation {
    let (new_id, new_hash) = (format!("key-{n}-new"), [n + 100; 32]);
    KeyRotation { id: format!("key-{n}"), new_id, new_hash, overlap_ms, actor: "admin:key-0".into() }
}

pub async fn a_key_comes_back_with_its_limits(world: World) {
    let queues = ["a", "b.c:d@e-f"].map(|name| name.parse().unwrap());
    let limited = KeyRecord {
        name: Some("na\0me".into()),
        note: Some("note".into()),
        limits: KeyLimits { scopes: Some(KeyScope::ALL.iter().copied().collect()), queues: Some(queues.into()) },
        created_by: Some("admin:key-0".into()),
        expires_at: Some(world.store.now().plus_ms(DAY_MS)),
        ..key(&world, 1, Role::Worker)
    };
    let free = key(&world, 2, Role::Operator);
    for key in [&limited, &free] {
        world.store.put_key(key.clone(), ops()).await.unwrap();
    }
    let world = world.restarted().await;
    assert_eq!((found(&world, [1; 32]).await, found(&world, [2; 32]).await), (limited.clone(), free.clone()));
    assert_eq!(world.store.keys().await.unwrap(), [limited, free]);
}

pub async fn a_key_is_revoked_once_and_by_whom(world: World) {
    world.store.put_key(key(&world, 1, Role::Worker), ops()).await.unwrap();
    let first = world.store.now();
    assert!(world.store.revoke_key("key-1", "admin:a".into()).await.unwrap());
    world.wait(1_000);
    assert!(world.store.revoke_key("key-1", "admin:b".into()).await.unwrap());
    assert!(!world.store.revoke_key("key-9", "admin:b".into()).await.unwrap());
    let key = found(&world, [1; 32]).await;
    assert_eq!((key.revoked_at, key.revoked_by), (Some(first), Some("admin:a".into())));
}

pub async fn a_rotated_key_ends_after_the_overlap(world: World) {
    let limits = KeyLimits { scopes: Some([KeyScope::Lease].into()), queues: None };
    world.store.put_key(KeyRecord { limits: limits.clone(), ..key(&world, 1, Role::Worker) }, ops()).await.unwrap();
    let rotated = world.store.rotate_key(rotation(1, 5_000)).await.unwrap();
    assert_eq!(rotated.replaced_until, world.store.now().plus_ms(5_000));
    let (old, new) = (found(&world, [1; 32]).await, found(&world, [101; 32]).await);
    assert_eq!(new, rotated.successor);
    assert_eq!((new.lineage.as_str(), &new.limits, &new.tenant), ("key-1", &limits, &old.tenant));
    assert_eq!((old.expires_at, old.revoked_at), (Some(rotated.replaced_until), None));

    world.wait(5_000);
    let ended = world.store.rotate_key(KeyRotation { new_hash: [77; 32], ..rotation(1, 0) }).await;
    assert!(matches!(ended, Err(Error::KeyEnded)));
    assert!(matches!(world.store.rotate_key(rotation(9, 0)).await, Err(Error::NotFound("key"))));
    assert_eq!(world.store.keys().await.unwrap().len(), 2);
}

pub async fn the_last_use_of_a_key_only_rises(world: World) {
    world.store.put_key(key(&world, 1, Role::Worker), ops()).await.unwrap();
    let now = world.store.now();
    let used = |at| KeyUse { id: "key-1".into(), at };
    let unknown = KeyUse { id: "key-9".into(), at: now };
    world.store.put_key_uses(vec![used(now.plus_ms(2)), unknown, used(now)]).await.unwrap();
    assert_eq!(found(&world, [1; 32]).await.last_used_at, Some(now.plus_ms(2)));
}

fn link(world: &World, n: u16) -> PortalLinkRecord {
    let mut hash = [0; 32];
    hash[..2].copy_from_slice(&n.to_le_bytes());
    PortalLinkRecord {
        id: format!("link-{n}"),
        tenant: "acme".parse().unwrap(),
        hash,
        session: None,
        created_at: world.store.now(),
        created_by: "operator:key-1".into(),
        expires_at: world.store.now().plus_ms(10_000),
        used_at: None,
        revoked_at: None,
    }
}

pub async fn a_portal_link_opens_one_session(world: World) {
    let made = link(&world, 1);
    world.store.create_portal_link(made.clone(), ops()).await.unwrap();
    world.wait(1_000);
    assert!(!world.store.open_portal_link([9; 32], [7; 32]).await.unwrap());
    assert!(world.store.open_portal_link(made.hash, [7; 32]).await.unwrap());
    assert!(!world.store.open_portal_link(made.hash, [8; 32]).await.unwrap());
    let world = world.restarted().await;
    let opened = PortalLinkRecord { session: Some([7; 32]), used_at: Some(world.store.now()), ..made };
    assert_eq!(world.store.portal_session([7; 32]).await.unwrap(), Some(opened.clone()));
    assert_eq!(world.store.portal_session([8; 32]).await.unwrap(), None);
    assert_eq!(world.store.portal_links(&opened.tenant).await.unwrap(), [opened]);
    assert_eq!(world.store.portal_links(&"globex".parse().unwrap()).await.unwrap(), []);
}

pub async fn an_ended_portal_link_opens_nothing(world: World) {
    let (late, revoked) = (link(&world, 1), link(&world, 2));
    for link in [&late, &revoked] {
        world.store.create_portal_link(link.clone(), ops()).await.unwrap();
    }
    assert!(world.store.revoke_portal_link("link-2", ops()).await.unwrap().revoked_at.is_some());
    assert!(!world.store.open_portal_link(revoked.hash, [7; 32]).await.unwrap());
    assert!(matches!(world.store.revoke_portal_link("link-9", ops()).await, Err(Error::NotFound("portal link"))));
    world.wait(10_000);
    assert!(!world.store.open_portal_link(late.hash, [7; 32]).await.unwrap());
    assert_eq!(world.store.trim_portal_links(100).await.unwrap().moved, 0);
    world.wait(DAY_MS + 1);
    assert_eq!(world.store.trim_portal_links(100).await.unwrap().moved, 2);
    assert_eq!(world.store.portal_links(&late.tenant).await.unwrap(), []);
}

pub async fn a_tenant_has_a_bounded_number_of_portal_links(world: World) {
    for n in 0..u16::try_from(PORTAL_LINKS_PER_TENANT_MAX).unwrap() {
        world.store.create_portal_link(link(&world, n), ops()).await.unwrap();
    }
    let more = link(&world, 5_000);
    let refused = world.store.create_portal_link(more.clone(), ops()).await;
    assert!(matches!(refused, Err(Error::TooManyPortalLinks { most: PORTAL_LINKS_PER_TENANT_MAX })));
    let other = PortalLinkRecord { tenant: "globex".parse().unwrap(), ..link(&world, 5_001) };
    world.store.create_portal_link(other, ops()).await.unwrap();
    world.store.revoke_portal_link("link-3", ops()).await.unwrap();
    world.store.create_portal_link(more, ops()).await.unwrap();
}
