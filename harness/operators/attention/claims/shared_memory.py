"""How tiles lie in shared memory: swizzled, padded or plain, and in how many buffers."""

from dataclasses import replace

from harness.expressibility.claims import Detector, Probe, Proof, forms, in_gluon, in_triton

UNSWIZZLED = Detector("ttgir", r"swizzled_shared<[^>]*maxPhase = 1\b|padded_shared<")
PADDED = Detector("ttgir", r"padded_shared<")
TRANSPOSING = Detector("ptx", r"ldmatrix\S*\.trans\S*")
"""Transposes the right operand: correct for V, and wrong for K, whose rows are the columns of K^T already."""
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
        f"The tile that pointers load is swizzled in the form {form}.",
        Probe("swizzle_pointers", form),
        Probe("swizzle_hook", "hook"),
        UNSWIZZLED,
        seen=False,
    )
    for form in FORMS
)
_narrow = (
    *(
        Proof(
            f"narrow_tiles {columns}",
            f"Rows of {2 * columns} bytes get {phases} phases.",
            *forms("narrow_tiles", str(columns), "8"),
            Detector("ttgir", rf"swizzled_shared<[^>]*maxPhase = {phases}\b"),
        )
        for columns, phases in ((64, 8), (32, 4))
    ),
    Proof(
        "narrow_tiles 8",
        "Rows of 16 bytes get one phase, which means no swizzle.",
        *forms("narrow_tiles", "8", "32"),
        UNSWIZZLED,
    ),
    Proof(
        "narrow_tiles 8 cp_async",
        "The same holds if cp.async copies the tile.",
        *forms("narrow_tiles", "8 cp_async", "32"),
        UNSWIZZLED,
    ),
)
_other_uses = tuple(
    Proof(
        f"unswizzled_uses {form}",
        shows,
        *forms("unswizzled_uses", form, "dot"),
        UNSWIZZLED,
        obtained=False,
    )
    for form, shows in (
        ("ieee", 'The operands of a tl.dot with input_precision="ieee", which uses no tensor cores, get no swizzle.'),
        ("elementwise", "A tile that is only added gets no swizzle."),
        ("dot and sum", "An operand of tl.dot that is also summed gets no swizzle."),
    )
)
_only_products = Proof(
    "unswizzled_uses dot",
    "The same operands get a swizzle if they only feed tl.dot.",
    *forms("unswizzled_uses", "dot", "elementwise"),
    UNSWIZZLED,
    seen=False,
)
_one_phase = Proof(
    "swizzle_gluon plain",
    "The tile's layout has one phase, so there is no swizzle.",
    *forms("swizzle_gluon", "plain", "swizzled"),
    UNSWIZZLED,
)
_one_phase_copied = Proof(
    "swizzle_gluon plain cp_async",
    "cp.async copies such a tile too (LDGSTS).",
    *forms("swizzle_gluon", "plain cp_async", "plain"),
    Detector("sass", r"LDGSTS\S*"),
)
_box_renamed = Proof(
    "box_gluon reinterpreted",
    "Reinterpreted under a layout for pointers, the box's transposed view is read without ldmatrix.trans.",
    *forms("box_gluon", "reinterpreted", "plain"),
    TRANSPOSING,
    seen=False,
    obtained=True,
)
_hook = Proof(
    "swizzle_hook",
    "A hook on the compiler's stages rewrites the kernel's TTGIR to one phase, which removes the swizzle.",
    *forms("swizzle_hook", "hook", "plain"),
    UNSWIZZLED,
)
_hook_ldmatrix = Proof(
    "swizzle_hook ldmatrix",
    "ldmatrix still reads the tile (LDSM).",
    Probe("swizzle_hook", "hook"),
    Probe("words", "plain"),
    Detector("sass", r"\bLDSM\S*"),
    obtained=False,
)
_override = Proof(
    "swizzle_ir_override",
    "The option ir_override, given an edited TTGIR, removes the swizzle too.",
    *forms("swizzle_hook", "ir_override", "plain"),
    UNSWIZZLED,
)

CLAIMS = (
    in_triton(
        "xor_swizzle",
        "hint",
        "The width and dtype of a tile that pointers load decide its swizzle: eight phases for rows of 128 bytes, "
        "four for 64, two for 32, and none for 16. No argument sets it, and a tile of 32 bytes or more per row is "
        f'swizzled in each of {len(FORMS)} forms tried. With input_precision="ieee" tl.dot uses no tensor cores, and '
        "its tiles are not swizzled.",
        *_narrow,
        *_pointers,
        _other_uses[0],
        word="COLUMNS",
    ),
    in_triton(
        "unswizzled_rows",
        "hint",
        "A tile that only feeds tl.dot on tensor cores is swizzled if its rows have more than 16 bytes. Tiles with "
        "other uses are not. No argument turns the swizzle off: only a hook on the compiler's stages or an edited IR "
        "does.",
        *_narrow[-2:],
        *_other_uses,
        _only_products,
        replace(_hook, obtained=False),
        _hook_ldmatrix,
        replace(_override, obtained=False),
        word="COLUMNS",
    ),
    in_triton(
        "padded_rows",
        "hatch",
        "The source cannot pad rows. A hook that rewrites the TTGIR can, unless cp.async copies the tile.",
        Proof(
            "padded_hook",
            "The hook gives the tile a padded layout.",
            *forms("swizzle_hook", "hook padded", "plain"),
            PADDED,
        ),
        Proof(
            "padded_hook_cp_async",
            "With cp.async the same hook makes the compiler fail.",
            *forms("swizzle_hook", "hook padded cp_async", "hook padded"),
            Detector("words", r"PassManager::run failed"),
        ),
        word="add_stages_inspection_hook",
    ),
    in_triton(
        "tma_swizzle",
        "hint",
        "The width of a TMA box's rows decides the swizzle: 128, 64 or 32 bytes, and none for rows of 16 "
        "bytes. No argument sets it.",
        *(
            Proof(
                f"swizzle_box {width}",
                f"Rows of {int(width) * 2} bytes get {f'a swizzle of {bytes_} bytes' if bytes_ else 'no swizzle'}.",
                *forms("swizzle_box", width, other),
                Detector("ttgir", rf"swizzlingByteWidth = {bytes_}\b"),
            )
            for width, bytes_, other in (("64", 128, "32"), ("32", 64, "16"), ("16", 32, "64"), ("8", 0, "64"))
        ),
        Proof(
            "swizzle_box ldmatrix",
            "With mma.sync, ldmatrix reads the unswizzled box directly: no code stores it to shared memory again.",
            *forms("swizzle_box", "8 mma_sync", "8"),
            STORED_AGAIN,
            seen=False,
        ),
        word=r"_desc\.load\(",
    ),
    in_triton(
        "asymmetric_kv_buffers",
        "hint",
        "The compiler pipelines a load with cp.async and num_stages - 1 buffers, or loads it through "
        "registers into one buffer. So K can have two buffers and V one, but then cp.async does not copy "
        "V. An attribute that the pipeliner reads, and that no word of the language sets, gives each load its "
        "number of buffers.",
        Proof(
            "buffers_per_tensor branch",
            "With V's load under an if statement, K has two buffers and V does not.",
            *forms("buffers_per_tensor", "branch", "plain"),
            Detector("ttgir", r"local_alloc : \(\) -> !ttg.memdesc<2x64x64xf16[^>]*>", least=2),
            seen=False,
        ),
        Proof(
            "buffers_per_tensor opaque",
            "If the compiler cannot follow V's addresses, cp.async copies K only.",
            *forms("buffers_per_tensor", "opaque", "plain"),
            Detector("ttgir", r"async_copy_global_to_local", least=6),
            seen=False,
        ),
        *(
            Proof(
                f"buffers_per_tensor {form}",
                f"With {load}, V gets as many buffers as K.",
                *forms("buffers_per_tensor", form, "branch"),
                Detector("ttgir", r"local_alloc : \(\) -> !ttg.memdesc<2x64x64xf16[^>]*>", least=2),
            )
            for form, load in (
                ("volatile", "a volatile load"),
                ("cg", "the cache modifier .cg"),
                ("inner loop", "its load in an inner loop"),
            )
        ),
        Proof(
            "buffers_per_tensor num_stages of a loop",
            "With num_stages=2 of the loop instead of the launch, K and V get one buffer each.",
            *forms("buffers_per_tensor", "num_stages of a loop", "plain"),
            Detector("ttgir", r"local_alloc : \(\) -> !ttg.memdesc<1x64x64xf16[^>]*>", least=2),
            obtained=False,
        ),
        Proof(
            "buffers_per_tensor one stage",
            "With num_stages=1, cp.async copies neither.",
            *forms("buffers_per_tensor", "one stage", "plain"),
            Detector("ttgir", r"async_copy_global_to_local"),
            seen=False,
        ),
        Proof(
            "load_latency buffers",
            "With the attribute, V has one buffer, beside the two of K.",
            *forms("load_latency", "attribute", "plain"),
            Detector("ttgir", r"local_alloc : \(\) -> !ttg\.memdesc<1x64x64"),
            obtained=False,
        ),
        Proof(
            "load_latency copies",
            "With the attribute, cp.async still copies both tensors: three tiles of K, two of V.",
            Probe("load_latency", "attribute"),
            Probe("buffers_per_tensor", "branch"),
            Detector("ttgir", r"async_copy_global_to_local", least=5),
            obtained=False,
        ),
        word="num_stages",
    ),
    in_triton(
        "shared_memory_reuse",
        "automatic",
        "The compiler gives two tiles the same bytes if one is no longer read when the other is written. "
        "The source can neither ask for it nor forbid it.",
        Proof(
            "reuse one",
            "One product needs 16384 bytes.",
            *forms("reuse", "one", "together"),
            Detector("facts", r"shared 16384"),
        ),
        Proof(
            "reuse in core Triton",
            "Two products, one after the other, use 16384 bytes: as much as one product needs.",
            *forms("reuse", "one after the other", "together"),
            Detector("facts", r"shared 16384"),
        ),
    ),
    in_gluon(
        "shared_memory_reuse",
        "direct",
        "A call reinterprets one tile's bytes as another tile. The programmer must know which of the two they hold.",
        Proof(
            "reuse in Gluon",
            "Two tiles of 8192 bytes occupy 8192 bytes.",
            *forms("reuse_gluon", "reuse", "apart"),
            Detector("facts", r"shared 8192"),
        ),
        word="reinterpret",
    ),
    in_gluon(
        "xor_swizzle",
        "direct",
        "A tile's layout is an argument: a swizzle given by three numbers, or any XOR given by its basis vectors.",
        Proof(
            "swizzle_gluon xor",
            "The tile has the XOR layout that the source spells out.",
            *forms("swizzle_gluon", "xor", "plain"),
            Detector("ttgir", r"shared_linear<\{offset = \[\[0, 1\]"),
        ),
        Proof(
            "swizzle_gluon xor ldmatrix",
            "ldmatrix reads the tile in that layout (LDSM).",
            Probe("swizzle_gluon", "xor"),
            Probe("words", "plain"),
            Detector("sass", r"LDSM\S*"),
        ),
        word="SharedLinearLayout",
    ),
    in_gluon(
        "unswizzled_rows",
        "direct",
        "A layout with one phase, which means no swizzle, is an argument. But these versions ignore the "
        "transposed view of an unswizzled TMA box: they read K where the source says K^T. Reinterpreted "
        "under another layout, the same bytes are read correctly.",
        _one_phase,
        _one_phase_copied,
        Proof(
            "box_gluon transposed",
            "ldmatrix.trans reads the transposed view of an unswizzled box, as it reads the box itself.",
            *forms("box_gluon", "transposed", "swizzled transposed"),
            TRANSPOSING,
            obtained=False,
        ),
        _box_renamed,
        fault="dropped",
        versions=("3.6.0", "3.7.1"),
        word=r"SwizzledSharedLayout\(8, 1, 1",
    ),
    in_gluon(
        "unswizzled_rows",
        "direct",
        "A layout with one phase, which means no swizzle, is an argument, and so is an unswizzled TMA box.",
        _one_phase,
        _one_phase_copied,
        Proof(
            "box_gluon transposed rightly",
            "The transposed view of an unswizzled box is read without ldmatrix.trans, unlike the box itself.",
            *forms("box_gluon", "transposed", "plain"),
            TRANSPOSING,
            seen=False,
            obtained=True,
        ),
        _box_renamed,
        versions=("3.8.0", "3.9.0"),
        word=r"SwizzledSharedLayout\(8, 1, 1",
    ),
    in_gluon(
        "padded_rows",
        "direct",
        "A padded layout is an argument. But the compiler fails if cp.async copies the tile, and it reads "
        "V 2 bytes at a time.",
        Proof(
            "swizzle_gluon padded",
            "The tile has a padded layout.",
            *forms("swizzle_gluon", "padded", "plain"),
            PADDED,
        ),
        Proof(
            "swizzle_gluon padded reads",
            "The tile is read 2 bytes at a time (LDS.U16).",
            *forms("swizzle_gluon", "padded", "plain"),
            Detector("sass", r"LDS\.U16"),
        ),
        Proof(
            "swizzle_gluon padded cp_async",
            "With cp.async the compiler fails.",
            *forms("swizzle_gluon", "padded cp_async", "swizzled cp_async"),
            Detector("words", r"PassManager::run failed|the process ended"),
        ),
        word="PaddedSharedLayout",
    ),
)
