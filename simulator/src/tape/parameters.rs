//! Parameters and buffers of the model.

use super::{Param, ParamId, Prim, Saving, Shard, Sharding, Source, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::Category;

impl Tape {
    /// Allocates and registers a parameter of the layer in its path.
    pub fn new_parameter(&mut self, name: String, shape: Shape, dtype: DType) -> ParamId {
        let layer = layer_of(&name);
        self.new_parameter_of(layer, name, shape, dtype)
    }

    /// Allocates and registers a parameter of this layer, whatever number is in its path.
    pub fn new_parameter_of(
        &mut self,
        layer: Option<u32>,
        name: String,
        shape: Shape,
        dtype: DType,
    ) -> ParamId {
        self.enter_layer(layer);
        let part = self.sharding.map(|sharding| {
            let elements = Shard::elements(shape, sharding.ranks);
            Shard { storage: StorageId::NONE, elements, dtype: sharding.dtype }
        });
        let bytes = match (part, self.sharding) {
            (Some(_), Some(Sharding { offload: true, .. })) => 0,
            (Some(part), _) => part.elements * part.dtype.bytes(),
            (None, _) => shape.elements() * dtype.bytes(),
        };
        let storage = self.allocate(bytes, Prim::Parameter);
        self.enter_layer(None);
        let id = ParamId::new(self.params.len());
        self.own(storage, id, Category::Weights);
        let mut param = Param::new(name, layer, storage, shape, dtype);
        if let Some(part) = part {
            // What the model computes with has no bytes until it is gathered.
            param.storage = StorageId::NONE;
            param.shard = Some(Shard { storage, ..part });
        }
        self.params.push(param);
        id
    }

    /// Deals new parameters out over ranks from now on, or gives them whole.
    pub const fn set_sharding(&mut self, sharding: Option<Sharding>) {
        self.sharding = sharding;
    }

    /// Over how many ranks new parameters are dealt out.
    pub fn sharded_by(&self) -> Option<u64> {
        self.sharding.map(|sharding| sharding.ranks)
    }

    /// Allocates a buffer of a module, which stays for the rest of the process.
    pub fn new_buffer(&mut self, name: &str, bytes: u64) {
        self.enter_layer(layer_of(name));
        let storage = self.allocate(bytes, Prim::Parameter);
        self.enter_layer(None);
        self.categorise(storage, Category::Weights);
        // Counters are 64-bit integers. Of the others it only matters that they are alike.
        let counts = name.ends_with("num_batches_tracked");
        self.buffers.push((if counts { DType::I64 } else { DType::F32 }, bytes));
    }

    /// Element type and bytes of each buffer.
    pub fn buffers(&self) -> &[(DType, u64)] {
        &self.buffers
    }

    /// A parameter.
    pub fn param(&self, id: ParamId) -> &Param {
        &self.params[id.index()]
    }

    /// A parameter, to change.
    pub fn param_mut(&mut self, id: ParamId) -> &mut Param {
        &mut self.params[id.index()]
    }

    /// Number of parameters.
    pub const fn n_params(&self) -> usize {
        self.params.len()
    }

    /// A handle to a parameter.
    pub fn weight(&mut self, id: ParamId) -> Tensor {
        self.hook_weight(id);
        let param = &self.params[id.index()];
        let (storage, shape, dtype, layout) =
            (param.storage, param.shape, param.dtype, param.layout);
        let source = if param.trainable && self.saving != Saving::Off {
            Source::Param { id, view: false }
        } else {
            Source::None
        };
        self.record.retain(storage);
        Tensor { storage, shape, dtype, layout, source, view: false }
    }
}

/// The layer in a parameter's path: its first part that is a number.
fn layer_of(path: &str) -> Option<u32> {
    path.split('.').find_map(|part| part.parse().ok())
}
