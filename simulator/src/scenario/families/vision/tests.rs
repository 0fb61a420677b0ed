//! Image networks against what torchvision publishes about them.

use super::*;

/// `num_params` of the weights that torchvision 0.26 offers for each model.
const PUBLISHED: [(&str, u128); 51] = [
    ("resnet18", 11_689_512),
    ("resnet34", 21_797_672),
    ("resnet50", 25_557_032),
    ("resnet101", 44_549_160),
    ("resnet152", 60_192_808),
    ("resnext50_32x4d", 25_028_904),
    ("resnext101_32x8d", 88_791_336),
    ("resnext101_64x4d", 83_455_272),
    ("wide_resnet50_2", 68_883_240),
    ("wide_resnet101_2", 126_886_696),
    ("vgg11", 132_863_336),
    ("vgg11_bn", 132_868_840),
    ("vgg13", 133_047_848),
    ("vgg13_bn", 133_053_736),
    ("vgg16", 138_357_544),
    ("vgg16_bn", 138_365_992),
    ("vgg19", 143_667_240),
    ("vgg19_bn", 143_678_248),
    ("mobilenet_v2", 3_504_872),
    ("mobilenet_v3_large", 5_483_032),
    ("mobilenet_v3_small", 2_542_856),
    ("efficientnet_b0", 5_288_548),
    ("efficientnet_b1", 7_794_184),
    ("efficientnet_b2", 9_109_994),
    ("efficientnet_b3", 12_233_232),
    ("efficientnet_b4", 19_341_616),
    ("efficientnet_b5", 30_389_784),
    ("efficientnet_b6", 43_040_704),
    ("efficientnet_b7", 66_347_960),
    ("efficientnet_v2_s", 21_458_488),
    ("efficientnet_v2_m", 54_139_356),
    ("efficientnet_v2_l", 118_515_272),
    ("convnext_tiny", 28_589_128),
    ("convnext_small", 50_223_688),
    ("convnext_base", 88_591_464),
    ("convnext_large", 197_767_336),
    ("densenet121", 7_978_856),
    ("densenet161", 28_681_000),
    ("densenet169", 14_149_480),
    ("densenet201", 20_013_928),
    ("regnet_y_400mf", 4_344_144),
    ("regnet_y_800mf", 6_432_512),
    ("regnet_y_1_6gf", 11_202_430),
    ("regnet_y_3_2gf", 19_436_338),
    ("regnet_y_8gf", 39_381_472),
    ("regnet_y_16gf", 83_590_140),
    ("regnet_y_32gf", 145_046_770),
    ("regnet_y_128gf", 644_812_894),
    ("regnet_x_400mf", 5_495_976),
    ("regnet_x_8gf", 39_572_648),
    ("regnet_x_32gf", 107_811_560),
];

fn vision(name: &str) -> Vision {
    let config = serde_json::json!({ "name": name });
    let fields = config.as_object().expect("a table");
    let mut table = Table::new(String::new(), fields);
    read(&mut table, &mut Faults::default()).expect("a known model")
}

#[test]
fn parameters_as_published() {
    for (name, parameters) in PUBLISHED {
        assert_eq!(vision(name).parameters(), parameters, "{name}");
    }
}

/// `_ops` of the weights: multiply-adds of one image, in 10⁹.
#[test]
fn multiply_adds_as_published() {
    let published = [
        ("resnet50", 4.089),
        ("vgg19_bn", 19.632),
        ("densenet121", 2.834),
        ("convnext_tiny", 4.456),
    ];
    for (name, billions) in published {
        #[expect(clippy::cast_precision_loss, reason = "counts of some 10^10")]
        let ours = vision(name).cost.macs as f64 / 1e9;
        assert!((ours - billions).abs() < 0.01 * billions, "{name}: {ours}");
    }
}

#[test]
fn every_model_can_be_built() {
    for name in names() {
        assert!(0 < vision(name).hidden(), "{name}");
    }
}

/// Read off the scaler's scale after ten steps on an H200: model, images, halvings.
#[test]
fn skipped_steps_as_seen() {
    for (name, images, steps) in [
        ("resnet50", 32, 3),
        ("resnet50", 64, 3),
        ("resnet50", 256, 2),
        ("resnet101", 16, 6),
        ("resnet101", 64, 5),
        ("resnet152", 16, 8),
        ("resnet152", 128, 7),
        ("resnext50_32x4d", 128, 2),
        ("resnext101_64x4d", 32, 6),
        ("wide_resnet50_2", 32, 3),
        ("vgg13_bn", 32, 1),
        ("vgg16_bn", 64, 2),
        ("vgg19_bn", 32, 3),
        ("vgg16", 64, 0),
        ("resnet34", 64, 0),
        ("densenet169", 32, 0),
        ("convnext_tiny", 64, 0),
    ] {
        assert_eq!(vision(name).skipped_steps(images), steps, "{name} {images}");
    }
}
