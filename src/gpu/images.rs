//! The kernels, compiled ahead. `kernels/build.py` makes them.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::{result, sys};

use crate::gpu::DeviceError;
use crate::gpu::driver::{Context, Properties, Result};
use crate::gpu::job::{Form, Launch, Layout};

/// An image, aligned as its format has it.
#[repr(C, align(16))]
struct Aligned<B: ?Sized>(B);

static SM_90: &Aligned<[u8]> = &Aligned(*include_bytes!("../../kernels/images/verify.sm_90.cubin"));
static SM_80: &Aligned<[u8]> = &Aligned(*include_bytes!("../../kernels/images/verify.sm_80.cubin"));
/// Text, which the driver reads up to a zero.
static PTX: &str = concat!(include_str!("../../kernels/images/verify.ptx"), "\0");

/// The least compute capability that the PTX is for.
const LEAST: (i32, i32) = (7, 5);

/// Code for some devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    /// Machine code, which runs on the devices of one major capability from its minor one up.
    Cubin(i32, i32),
    /// What the driver compiles for any later device.
    Ptx,
}

impl Image {
    /// The best image for a device; `None` if no kernel runs on it.
    fn of((major, minor): (i32, i32)) -> Option<Self> {
        if (major, minor) < LEAST {
            return None;
        }
        let cubins = [(9, 0), (8, 0)].into_iter();
        let mut runs = cubins.filter(|&(of, from)| of == major && from <= minor);
        Some(runs.next().map_or(Self::Ptx, |(major, minor)| Self::Cubin(major, minor)))
    }

    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Cubin(9, _) => &SM_90.0,
            Self::Cubin(..) => &SM_80.0,
            Self::Ptx => PTX.as_bytes(),
        }
    }
}

/// Every kernel, loaded into a context.
#[derive(Debug)]
pub(crate) struct Kernels {
    context: Arc<Context>,
    module: sys::CUmodule,
    functions: HashMap<(Layout, Form), Function>,
}

// SAFETY: modules and functions may be used on any thread.
unsafe impl Send for Kernels {}
unsafe impl Sync for Kernels {}

/// A kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub handle: sys::CUfunction,
    /// Words of dynamic shared memory that a block may have.
    pub shared_words: u32,
}

const FORMS: [(Form, &str); 2] = [(Form::Pairs, "pairs"), (Form::Count, "count")];

/// Whether kernels run on such a device.
pub(crate) fn check(properties: &Properties) -> Result<()> {
    let capability = properties.capability;
    match Image::of(capability) {
        Some(_) => Ok(()),
        None => Err(DeviceError::Unsupported { name: properties.name.clone(), capability }),
    }
}

impl Kernels {
    /// Loads the kernels. The context is current, the device has been [`check`]ed.
    pub fn load(context: &Arc<Context>, properties: &Properties) -> Result<Self> {
        let image = Image::of(properties.capability).unwrap_or(Image::Ptx);
        let load = |image: Image| {
            let start = image.bytes().as_ptr().cast::<c_void>();
            // SAFETY: an image of ours, which knows its own end.
            context.check("cuModuleLoadData", unsafe { result::module::load_data(start) })
        };
        const NO_BINARY: i32 = sys::CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as i32;
        let module = match load(image) {
            // A device that calls itself one of a family but is not compatible with it.
            Err(DeviceError::Failed { code: NO_BINARY, .. }) if image != Image::Ptx => {
                load(Image::Ptx)?
            }
            module => module?,
        };
        let context = Arc::clone(context);
        let mut kernels = Self { context, module, functions: HashMap::new() };
        for layout in Layout::ALL {
            for (form, form_name) in FORMS {
                let name = format!("verify_{}_{form_name}", layout.name());
                let function = kernels.function(&name, properties.shared_memory)?;
                kernels.functions.insert((layout, form), function);
            }
        }
        Ok(kernels)
    }

    /// Looks a kernel up and opens all shared memory of the device (`bytes` for a block) to it.
    fn function(&self, name: &str, bytes: u32) -> Result<Function> {
        use sys::CUfunction_attribute as Attribute;
        let name = CString::new(name).map_err(|e| DeviceError::Internal(e.to_string()))?;
        // SAFETY: the module is loaded, here and below.
        let handle = unsafe { result::module::get_function(self.module, name) };
        let handle = self.context.check("cuModuleGetFunction", handle)?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        let fixed = unsafe { result::function::get_function_attribute(handle, attribute) };
        let fixed = self.context.check("cuFuncGetAttribute", fixed)?;
        let dynamic = bytes.saturating_sub(fixed.max(0) as u32);
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let set =
            unsafe { result::function::set_function_attribute(handle, attribute, dynamic as i32) };
        self.context.check("cuFuncSetAttribute", set)?;
        Ok(Function { handle, shared_words: dynamic / size_of::<u32>() as u32 })
    }

    /// The kernel of a launch.
    pub fn of(&self, launch: &Launch) -> Result<Function> {
        // All have been loaded.
        self.functions
            .get(&(launch.layout, launch.form))
            .copied()
            .ok_or_else(|| DeviceError::Internal(format!("there is no kernel for {launch:?}")))
    }

    /// Words of shared memory that a block of any kernel may have.
    pub fn max_shared_words(&self) -> u32 {
        self.functions.values().map(|function| function.shared_words).min().unwrap_or(0)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        // SAFETY: no kernel of it runs.
        self.context.release("cuModuleUnload", || unsafe { result::module::unload(self.module) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_get_the_machine_code_of_their_family_or_ptx() {
        assert_eq!(Image::of((9, 0)), Some(Image::Cubin(9, 0)));
        assert_eq!(Image::of((8, 0)), Some(Image::Cubin(8, 0)));
        assert_eq!(Image::of((8, 9)), Some(Image::Cubin(8, 0)));
        assert_eq!(Image::of((7, 5)), Some(Image::Ptx));
        assert_eq!(Image::of((10, 0)), Some(Image::Ptx));
        assert_eq!(Image::of((12, 1)), Some(Image::Ptx));
        assert_eq!(Image::of((7, 0)), None);
        assert_eq!(Image::of((6, 1)), None);
    }

    #[test]
    fn images_are_what_their_names_say() {
        assert!(Image::Cubin(9, 0).bytes().starts_with(b"\x7fELF"));
        assert!(Image::Cubin(8, 0).bytes().starts_with(b"\x7fELF"));
        let ptx = str::from_utf8(Image::Ptx.bytes()).expect("PTX is text");
        assert!(ptx.contains(".version 8.4") && ptx.ends_with('\0'));
    }

    #[test]
    fn devices_without_a_kernel_are_refused_by_name() {
        let properties = Properties {
            name: "Old Card".into(),
            capability: (6, 1),
            multiprocessors: 1,
            shared_memory: 0,
            total_memory: 0,
        };
        let error = check(&properties).expect_err("no kernel runs on it").to_string();
        assert!(error.contains("Old Card") && error.contains("6.1"), "{error}");
    }
}
