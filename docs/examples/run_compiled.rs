//! Runs a compiled program on zeros, in a program of its own for each thread, and prints the first value of each output.
//!
//!     csdfgen compile zoo:resnet8 --library lib
//!     rustc -O run_compiled.rs -L lib -l csdfgen -C link-arg=-Wl,-rpath,lib
//!     ./run_compiled resnet8.csdfgen 2
use std::ffi::{c_char, c_void, CStr, CString};

/// `csdfgen_tensor` of csdfgen.h.
#[repr(C)]
struct Tensor {
    name: *const c_char,
    kind: *const c_char,
    output: i32,
    rank: i32,
    sizes: *const i64,
    bytes: usize,
}

extern "C" {
    fn csdfgen_open(path: *const c_char, why: *mut c_char, size: usize) -> *mut c_void;
    fn csdfgen_tensors(program: *const c_void) -> i32;
    fn csdfgen_tensor_at(program: *const c_void, number: i32) -> Tensor;
    fn csdfgen_run(program: *mut c_void, arrays: *const *mut c_void);
    fn csdfgen_close(program: *mut c_void);
}

/// A line for each output of float32, or why there is no program.
fn frame(path: &CStr) -> Result<Vec<String>, String> {
    let mut why: [c_char; 256] = [0; 256];
    unsafe {
        let program = csdfgen_open(path.as_ptr(), why.as_mut_ptr(), why.len());
        if program.is_null() {
            return Err(CStr::from_ptr(why.as_ptr()).to_string_lossy().into_owned());
        }
        let tensors: Vec<Tensor> =
            (0..csdfgen_tensors(program)).map(|k| csdfgen_tensor_at(program, k)).collect();
        // numbers of 64 bits, so that elements of every type are aligned
        let mut arrays: Vec<Vec<u64>> = tensors.iter().map(|one| vec![0; one.bytes / 8 + 1]).collect();
        let places: Vec<*mut c_void> = arrays.iter_mut().map(|one| one.as_mut_ptr().cast()).collect();
        csdfgen_run(program, places.as_ptr());
        let mut lines = Vec::new();
        for (tensor, array) in tensors.iter().zip(&arrays) {
            if tensor.output != 0 && CStr::from_ptr(tensor.kind).to_bytes() == b"float32" {
                let name = CStr::from_ptr(tensor.name).to_string_lossy();
                lines.push(format!("{name}: {}", *array.as_ptr().cast::<f32>()));
            }
        }
        csdfgen_close(program);
        Ok(lines)
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (Some(path), Some(Ok(threads))) = (words.get(1), words.get(2).map(|one| one.parse::<usize>())) else {
        eprintln!("usage: run_compiled FILE.csdfgen THREADS");
        std::process::exit(2);
    };
    let file = CString::new(path.as_str()).expect("arguments have no zeros");
    let running: Vec<_> = (0..threads)
        .map(|_| {
            let file = file.clone();
            std::thread::spawn(move || frame(&file))
        })
        .collect();
    for (number, thread) in running.into_iter().enumerate() {
        match thread.join().expect("a thread has ended") {
            Ok(lines) => lines.iter().for_each(|line| println!("{number} {line}")),
            Err(why) => {
                eprintln!("{path}: {why}");
                std::process::exit(1);
            }
        }
    }
}
