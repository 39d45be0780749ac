//! Programs for devices, compiled ahead, and their kernels by name.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{result, sys};
use parking_lot::Mutex;

use crate::runtime::driver::{Context, Properties, Result};
use crate::runtime::{DeviceError, Images};

/// The least compute capability that the PTX of `kernels/build.py` is for.
const LEAST: (i32, i32) = (7, 5);

/// Code for some devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    /// Machine code, by its place in [`Images::cubins`].
    Cubin(usize),
    /// PTX, which the driver compiles for any later device.
    Ptx,
}

impl Image {
    /// The best image for a device; `None` if no kernel runs on it.
    fn of(images: &Images, capability: (i32, i32)) -> Option<Self> {
        if capability < LEAST {
            return None;
        }
        let (major, minor) = capability;
        let mut cubins = images.cubins.iter();
        let runs = cubins.position(|&((of, from), _)| of == major && from <= minor);
        Some(runs.map_or(Self::Ptx, Self::Cubin))
    }

    fn start(self, images: &Images) -> *const c_void {
        match self {
            Self::Cubin(place) => images.cubins[place].1.as_ptr().cast(),
            Self::Ptx => images.ptx.as_ptr().cast(),
        }
    }
}

/// The programs loaded on a device, each with its first use.
#[derive(Debug)]
pub(super) struct Modules {
    context: Arc<Context>,
    properties: Properties,
    /// The loaded programs, found by the address of their images.
    loaded: Mutex<Vec<Module>>,
}

#[derive(Debug)]
struct Module {
    context: Arc<Context>,
    images: &'static Images,
    handle: sys::CUmodule,
    functions: HashMap<&'static str, Kernel>,
}

// SAFETY: modules and functions may be used on any thread.
unsafe impl Send for Module {}

/// The threads of a launch, in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchGrid {
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in words of 4 bytes.
    pub shared_words: u32,
}

/// A kernel of a program that is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    handle: sys::CUfunction,
    shared_words: u32,
}

// SAFETY: as above.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    pub fn handle(&self) -> sys::CUfunction {
        self.handle
    }

    /// Words (of 4 bytes) of dynamic shared memory that a block may have.
    pub fn shared_words(&self) -> u32 {
        self.shared_words
    }
}

impl Modules {
    pub(super) fn new(context: &Arc<Context>, properties: &Properties) -> Self {
        let properties = properties.clone();
        Self { context: Arc::clone(context), properties, loaded: Mutex::default() }
    }

    /// Loads a program unless it is. The context is current.
    pub(super) fn load(&self, images: &'static Images) -> Result<()> {
        self.find(&mut self.loaded.lock(), images).map(|_| ())
    }

    /// A kernel of a program, which is loaded for it if need be. The context is current.
    pub(super) fn kernel(&self, images: &'static Images, name: &'static str) -> Result<Kernel> {
        let mut loaded = self.loaded.lock();
        let place = self.find(&mut loaded, images)?;
        loaded[place].kernel(name, self.properties.shared_memory)
    }

    fn find(&self, loaded: &mut Vec<Module>, images: &'static Images) -> Result<usize> {
        if let Some(place) = loaded.iter().position(|module| ptr::eq(module.images, images)) {
            return Ok(place);
        }
        loaded.push(Module::load(&self.context, images, &self.properties)?);
        Ok(loaded.len() - 1)
    }
}

impl Module {
    fn load(
        context: &Arc<Context>,
        images: &'static Images,
        properties: &Properties,
    ) -> Result<Self> {
        let capability = properties.capability;
        let image = Image::of(images, capability).ok_or_else(|| DeviceError::Unsupported {
            name: properties.name.clone(),
            capability,
            needed: "7.5 or higher",
        })?;
        let load = |image: Image| {
            // SAFETY: an image of ours, which knows its own end; the context is current.
            let loaded = unsafe { result::module::load_data(image.start(images)) };
            context.check("cuModuleLoadData", loaded)
        };
        const NO_BINARY: i32 = sys::CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as i32;
        let handle = match load(image) {
            // A device that calls itself one of a family but is not compatible with it.
            Err(DeviceError::Failed { code: NO_BINARY, .. }) if image != Image::Ptx => {
                load(Image::Ptx)?
            }
            module => module?,
        };
        Ok(Self { context: Arc::clone(context), images, handle, functions: HashMap::new() })
    }

    /// Looks a kernel up; the first time all shared memory of the device (`bytes` for a block) is
    /// opened to it.
    fn kernel(&mut self, name: &'static str, bytes: u32) -> Result<Kernel> {
        use sys::CUfunction_attribute as Attribute;
        if let Some(kernel) = self.functions.get(name) {
            return Ok(*kernel);
        }
        let text = CString::new(name).map_err(|e| DeviceError::Internal(e.to_string()))?;
        // SAFETY: the module is loaded.
        let handle = unsafe { result::module::get_function(self.handle, text) };
        let handle = self.context.check("cuModuleGetFunction", handle)?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: the function is the module's.
        let fixed = unsafe { result::function::get_function_attribute(handle, attribute) };
        let fixed = self.context.check("cuFuncGetAttribute", fixed)?;
        let dynamic = bytes.saturating_sub(fixed.max(0) as u32);
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: as above.
        let set =
            unsafe { result::function::set_function_attribute(handle, attribute, dynamic as i32) };
        self.context.check("cuFuncSetAttribute", set)?;
        let kernel = Kernel { handle, shared_words: dynamic / size_of::<u32>() as u32 };
        self.functions.insert(name, kernel);
        Ok(kernel)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: no kernel of it runs.
        self.context.release("cuModuleUnload", || unsafe { result::module::unload(self.handle) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_get_the_machine_code_of_their_family_or_ptx() {
        static IMAGES: Images = Images { cubins: &[((9, 0), &[]), ((8, 0), &[])], ptx: "\0" };
        let of = |capability| Image::of(&IMAGES, capability);
        assert_eq!(of((9, 0)), Some(Image::Cubin(0)));
        assert_eq!(of((8, 0)), Some(Image::Cubin(1)));
        assert_eq!(of((8, 9)), Some(Image::Cubin(1)));
        assert_eq!(of((7, 5)), Some(Image::Ptx));
        assert_eq!(of((10, 0)), Some(Image::Ptx));
        assert_eq!(of((12, 1)), Some(Image::Ptx));
        assert_eq!(of((7, 0)), None);
        assert_eq!(of((6, 1)), None);
    }
}
