//! Points and their multiples.

use crate::curve::Curve;
use crate::field::Fe;
use crate::point::{Affine, Jacobian, add_each, double_each};

fn on_curve(p: &Affine<u64>) -> bool {
    let right = p.x.square().mul(&p.x).add(&Fe::small(7));
    p.y.square().sub(&right).is_zero()
}

#[test]
fn table() {
    let curve = Curve::secp256k1();
    for (i, row) in curve.generator.iter().enumerate() {
        let [a, b, c, d, e, f, g, h] = row.0;
        let p = Affine {
            x: Fe::<u64>::broadcast(&[a, b, c, d]),
            y: Fe::broadcast(&[e, f, g, h]),
        };
        assert!(on_curve(&p), "{i}");
    }
}

fn on_j(p: &Jacobian<u64>) -> bool {
    let zz = p.z.clear().square();
    let z6 = zz.square().mul(&zz);
    let right = p.x.square().mul(&p.x).add(&z6.mul(&Fe::small(7)));
    p.y.square().sub(&right).is_zero()
}

#[test]
fn steps() {
    let curve = Curve::secp256k1();
    let get = |i: usize| {
        let [a, b, c, d, e, f, g, h] = curve.generator[i].0;
        Affine {
            x: Fe::<u64>::broadcast(&[a, b, c, d]),
            y: Fe::broadcast(&[e, f, g, h]),
        }
    };
    let mut p = [
        get(0).jacobian(),
        get(1).jacobian(),
        get(2).jacobian(),
        get(3).jacobian(),
    ];
    double_each(&mut p);
    assert!(p.iter().all(on_j));
    double_each(&mut p);
    assert!(p.iter().all(on_j));
    add_each(&mut p, [&get(6), &get(7), &get(8), &get(9)]);
    assert!(p.iter().all(on_j));
}
