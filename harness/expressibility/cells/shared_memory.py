"""How tiles lie in shared memory: swizzled, padded, plain, in how many buffers."""

from harness.expressibility.claims import Claim, Detector, Probe, Proof

UNSWIZZLED = Detector("ttgir", r"swizzled_shared<[^>]*maxPhase = 1\b|padded_shared<")
PADDED = Detector("ttgir", r"padded_shared<")
TRANSPOSING = Detector("ptx", r"ldmatrix\S*\.trans\S*")
"""Rows of the right operand are turned to columns: right for V, and wrong for K, whose rows are columns already."""
STORED_AGAIN = Detector(
    "ptx",
    r"cp\.async\.bulk(?: cp\.async\.bulk)* st\.shared.*(?:wgmma|mma\.sync)",
    order=r"cp\.async\.bulk\b|st\.shared|ldmatrix|wgmma(?=\.mma_async)|mma\.sync",
)

FORMS = (
    *(f"fp16 {way} 64" for way in ("plain", "mask", "a_transposed", "b_transposed", "cache", "strided", "added")),
    *(f"fp16 {way} 16" for way in ("plain", "a_transposed")),
    *(f"{dtype} {way} 64" for dtype in ("fp8e5", "i8", "fp32") for way in ("plain", "a_transposed", "b_transposed")),
)
_pointers = tuple(
    Proof(
        f"swizzle_pointers {form}",
        "a tile that pointers bring to shared memory is swizzled, in this form too",
        Probe("swizzle_pointers", form),
        Probe("swizzle_hook", "hook"),
        UNSWIZZLED,
        seen=False,
        obtained=True,
    )
    for form in FORMS
)
_one_phase = Proof(
    "swizzle_gluon plain",
    "one phase: no swizzle",
    Probe("swizzle_gluon", "plain"),
    Probe("swizzle_gluon", "swizzled"),
    UNSWIZZLED,
)
_box_renamed = Proof(
    "box_gluon reinterpreted",
    "the same box under the name of a layout of pointers: its transposed view is read row by row",
    Probe("box_gluon", "reinterpreted"),
    Probe("box_gluon", "plain"),
    TRANSPOSING,
    seen=False,
    obtained=True,
)
_hook = Proof(
    "swizzle_hook",
    "a hook on the compiler's stages rewrites the kernel's own TTGIR to one phase: no swizzle",
    Probe("swizzle_hook", "hook"),
    Probe("swizzle_hook", "plain"),
    UNSWIZZLED,
)
_override = Proof(
    "swizzle_ir_override",
    "the same by the option ir_override, with an edited TTGIR",
    Probe("swizzle_hook", "ir_override"),
    Probe("swizzle_hook", "plain"),
    UNSWIZZLED,
)

CLAIMS = (
    Claim(
        "xor_swizzle",
        "triton",
        "automatic",
        "Every tile that pointers bring to shared memory is swizzled; its width and dtype decide how, and nothing in "
        "the source turns it off.",
        _pointers,
    ),
    Claim(
        "unswizzled_rows",
        "triton",
        "hatch",
        "No word for it where pointers load; a hook on the compiler's stages or an edited IR takes the swizzle out.",
        (_hook, _override),
        word="add_stages_inspection_hook|ir_override",
    ),
    Claim(
        "padded_rows",
        "triton",
        "hatch",
        "No word for padding: a hook that rewrites the TTGIR pads, where the copy is not cp.async.",
        (
            Proof(
                "padded_hook",
                "the hook gives rows 16 bytes of distance",
                Probe("swizzle_hook", "hook padded"),
                Probe("swizzle_hook", "plain"),
                PADDED,
            ),
            Proof(
                "padded_hook_cp_async",
                "with cp.async the same hook ends in an error of the compiler",
                Probe("swizzle_hook", "hook padded cp_async"),
                Probe("swizzle_hook", "hook padded"),
                Detector("words", r"PassManager::run failed"),
            ),
        ),
        word="add_stages_inspection_hook",
    ),
    Claim(
        "tma_swizzle",
        "triton",
        "hint",
        "The width of a box's rows decides: 128, 64 or 32 bytes of swizzle, and none for rows of 16 bytes. There is no "
        "argument for it.",
        (
            *(
                Proof(
                    f"swizzle_box {width}",
                    f"rows of {int(width) * 2} bytes: swizzled by {bytes_} bytes",
                    Probe("swizzle_box", width),
                    Probe("swizzle_box", other),
                    Detector("ttgir", rf"swizzlingByteWidth = {bytes_}\b"),
                )
                for width, bytes_, other in (("64", 128, "32"), ("32", 64, "16"), ("16", 32, "64"), ("8", 0, "64"))
            ),
            Proof(
                "swizzle_box ldmatrix",
                "with mma.sync ldmatrix reads the unswizzled box: nothing stores it again",
                Probe("swizzle_box", "8 mma_sync"),
                Probe("swizzle_box", "8"),
                STORED_AGAIN,
                seen=False,
            ),
        ),
        word=r"_desc\.load\(",
    ),
    Claim(
        "asymmetric_kv_buffers",
        "triton",
        "hint",
        "A load is in the pipeline with num_stages - 1 buffers, or outside it with one, past the registers no more: K "
        "with two and V with one works, both by cp.async does not.",
        (
            Proof(
                "buffers_per_tensor branch",
                "a load of V under an `if`: two buffers for K, one tile of V",
                Probe("buffers_per_tensor", "branch"),
                Probe("buffers_per_tensor", "plain"),
                Detector("ttgir", r"local_alloc : \(\) -> !ttg.memdesc<2x64x64xf16[^>]*>", least=2),
                seen=False,
            ),
            Proof(
                "buffers_per_tensor opaque",
                "addresses of V that the compiler cannot follow: two buffers for K, none of cp.async for V",
                Probe("buffers_per_tensor", "opaque"),
                Probe("buffers_per_tensor", "plain"),
                Detector("ttgir", r"async_copy_global_to_local", least=6),
                seen=False,
            ),
            *(
                Proof(
                    f"buffers_per_tensor {form}",
                    "V gets as many buffers as K",
                    Probe("buffers_per_tensor", form),
                    Probe("buffers_per_tensor", "branch"),
                    Detector("ttgir", r"local_alloc : \(\) -> !ttg.memdesc<2x64x64xf16[^>]*>", least=2),
                )
                for form in ("volatile", "cg", "inner loop")
            ),
        ),
        word="num_stages",
    ),
    Claim(
        "shared_memory_reuse",
        "triton",
        "automatic",
        "Tiles share bytes where one is no longer read when the other comes; no word asks for it or forbids it.",
        (
            Proof(
                "reuse in core Triton",
                "two products, one after the other, in the 16384 bytes of one",
                Probe("reuse", "one after the other"),
                Probe("reuse", "together"),
                Detector("facts", r"shared 16384"),
            ),
        ),
    ),
    Claim(
        "shared_memory_reuse",
        "gluon",
        "direct",
        "A call reads a tile as another at the same bytes; which of the two is there is the programmer's care.",
        (
            Proof(
                "reuse in Gluon",
                "two tiles of 8192 bytes in 8192 bytes",
                Probe("reuse_gluon", "reuse"),
                Probe("reuse_gluon", "apart"),
                Detector("facts", r"shared 8192"),
            ),
        ),
        word="reinterpret",
    ),
    Claim(
        "xor_swizzle",
        "gluon",
        "direct",
        "The layout of a tile is an argument: a swizzle by three numbers, or any XOR by its bases.",
        (
            Proof(
                "swizzle_gluon xor",
                "an XOR of one's own",
                Probe("swizzle_gluon", "xor"),
                Probe("swizzle_gluon", "plain"),
                Detector("ttgir", r"shared_linear<\{offset = \[\[0, 1\]"),
            ),
            Proof(
                "swizzle_gluon xor ldmatrix",
                "ldmatrix reads it",
                Probe("swizzle_gluon", "xor"),
                Probe("words", "plain"),
                Detector("sass", r"LDSM\S*"),
            ),
        ),
        word="SharedLinearLayout",
    ),
    Claim(
        "unswizzled_rows",
        "gluon",
        "direct",
        "One phase is an argument like any other. The transposed view of a box that TMA brought without a swizzle is "
        "dropped: K is read where its transpose is meant. Under another layout's name the same bytes are read rightly.",
        (
            _one_phase,
            Proof(
                "box_gluon transposed",
                "the transposed view of a box without a swizzle is read as the box itself is: by columns",
                Probe("box_gluon", "transposed"),
                Probe("box_gluon", "swizzled transposed"),
                TRANSPOSING,
                obtained=False,
            ),
            _box_renamed,
        ),
        fault="dropped",
        versions=("3.6.0", "3.7.1"),
        word=r"SwizzledSharedLayout\(8, 1, 1",
    ),
    Claim(
        "unswizzled_rows",
        "gluon",
        "direct",
        "One phase is an argument like any other, and so is no swizzle of a box that TMA brings.",
        (
            _one_phase,
            Proof(
                "box_gluon transposed rightly",
                "the transposed view of a box without a swizzle is read row by row",
                Probe("box_gluon", "transposed"),
                Probe("box_gluon", "plain"),
                TRANSPOSING,
                seen=False,
                obtained=True,
            ),
            _box_renamed,
        ),
        versions=("3.8.0", "3.9.0"),
        word=r"SwizzledSharedLayout\(8, 1, 1",
    ),
    Claim(
        "padded_rows",
        "gluon",
        "direct",
        "A padded layout is an argument. Not with cp.async, which ends in an error, and V is read by 2 bytes.",
        (
            Proof(
                "swizzle_gluon padded",
                "rows 16 bytes further apart",
                Probe("swizzle_gluon", "padded"),
                Probe("swizzle_gluon", "plain"),
                PADDED,
            ),
            Proof(
                "swizzle_gluon padded reads",
                "2 bytes at a time where ldmatrix.trans would do",
                Probe("swizzle_gluon", "padded"),
                Probe("swizzle_gluon", "plain"),
                Detector("sass", r"LDS\.U16"),
            ),
            Proof(
                "swizzle_gluon padded cp_async",
                "with cp.async the compiler fails",
                Probe("swizzle_gluon", "padded cp_async"),
                Probe("swizzle_gluon", "swizzled cp_async"),
                Detector("words", r"PassManager::run failed|the process ended"),
            ),
        ),
        word="PaddedSharedLayout",
    ),
)
