"""Decides which calls of attention in a model are captured, and writes their tensors to the file."""
import contextlib
import json
import re
from typing import NamedTuple, Optional

import h5py
import numpy as np
import torch

from annulus import arguments, axes, elements, files, formats, hdf5, options, tensors
from annulus.capturing import calls, masks
from annulus.errors import AnnulusError

AXES = axes.NAMES["bhsd"]  # PyTorch's


class Layer(NamedTuple):
    """One captured attention."""
    number: int      # number of the call in one forward pass, from 0
    module: str      # qualified name of the innermost module that made the call
    group: str       # its group in the file: "/" or "/layer_004"
    shapes: dict     # {"q": (B, H, S, D), ...}
    element: str
    mask: str        # dense, causal, window [left, right], other
    scale: Optional[float]
    softcap: Optional[float] = None
    query_offset: object = None  # where q begins if it has other rows than k: a row of k, or "none"
    dropout: float = 0.0

    def __str__(self):
        shapes = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        cap = "" if self.softcap is None else f", softcap {self.softcap:g}"
        dropout = f", dropout {self.dropout:g}" if self.dropout else ""
        return f"layer {self.number}, {self.module or 'the model itself'}: {shapes} {self.element}, {self.mask}{cap}{dropout}"


_layer = arguments.either(arguments.text(), arguments.is_text, arguments.whole())
_layers = arguments.listed(_layer, "a list of layers")


@arguments.checked(
    model=arguments.instance("torch.nn", "Module", "a model, a torch.nn.Module"), path=arguments.path,
    layer=arguments.optional(arguments.either(_layers, lambda value: isinstance(value, (list, tuple)), _layer)),
    dout=arguments.flag, overwrite=arguments.flag)
@contextlib.contextmanager
def capture(model, path, layer=None, dout=False, overwrite=False):
    """Writes Q, K and V of the model's attention in the first forward pass inside the block to the HDF5 file `path`.

    model  an nn.Module that calls scaled_dot_product_attention, in any way, or has nn.MultiheadAttention
    layer  which attention: its number in the order of calls (-1: the last), or the name of its module (as in
           model.named_modules()); it is written as datasets q, k, v. For a list of these, or None for all, each
           attention is written to a group of its own, layer_000, layer_001, ...
    dout   also writes the gradient of the attention's output, dout: run one backward pass inside the block

    Tensors are written as the call has them, (B, H, S, D), with the names of their axes, so that `annulus run` needs no
    input.axes. `with capture(...) as recorder`: print(recorder) shows the layers, recorder.run_file() makes a run file.
    If the block raises, no file is made. If the block does not call a wanted attention, capture() raises AnnulusError,
    and no file is made.
    """
    formats.refuse_other(path, "hdf5")
    with files.new_path(path, overwrite) as aside, h5py.File(aside, "w") as file:
        recorder = Recorder(file, str(path), layer, dout)
        with recorder.hooks(model), calls.seen(recorder.on_call):
            yield recorder
        recorder.finish()


class Recorder:
    """The value of `with capture(...)`."""

    def __init__(self, file, path, layer, dout):
        self._file, self._path, self._dout = file, path, dout
        self._wanted = None if layer is None else list(layer) if isinstance(layer, (list, tuple)) else [layer]
        self._alone = self._wanted is not None and not isinstance(layer, (list, tuple))
        if self._alone and not isinstance(layer, str) and layer < -1:  # group / keeps only the latest call
            raise AnnulusError(f"layer is {layer}, expected a number from 0 on, -1 for the last, or a list: [{layer}]")
        self._stack = []        # qualified names of the modules that are being called
        self._passes = 0
        self._seen = []         # module names of all calls in the first pass
        self._layers = []
        self._missing_dout = {}

    @property
    def layers(self):
        return list(self._layers)

    def __str__(self):
        return "\n".join(map(str, self._layers)) or "nothing captured"

    @contextlib.contextmanager
    def hooks(self, model):
        def enter(name):
            def hook(module, args):
                self._passes += not self._stack
                self._stack.append(name)
            return hook

        def leave(module, args, output):
            self._stack.pop()

        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(enter(name)))
            handles.append(module.register_forward_hook(leave, always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def on_call(self, query, key, value, options, output):
        if not self._stack or self._passes > 1:
            return  # a call by another model, or in a later pass
        number, module = len(self._seen), self._stack[-1]
        self._seen.append(module)
        # Which call is number -1 is known only after the pass. Until then _replace() keeps the latest call.
        if not self._wants(number, module):
            return
        where = f"{self._path}: layer {number} ({module or 'the model itself'})"
        query, key, value = _as_autocast(query, key, value)
        found = {name: _four_axes(where, name, tensor) for name, tensor in (("q", query), ("k", key), ("v", value))}
        described = {name: self._described(where, name, tensor) for name, tensor in found.items()}
        axes.check_input(described)
        if options.get("uncertain"):
            raise AnnulusError(f"{where}: its scores have a cap and go through {options['uncertain']}; expected factors, "
                               "tanh, a mask that is added and softmax over the keys")
        if self._alone and self._layers:
            self._replace(where)
        group = "/" if self._alone else f"/layer_{number:03d}"
        mask, offset = masks.placed(found["q"].shape[2], found["k"].shape[2], options["attn_mask"], options["is_causal"])
        for name, tensor in found.items():
            self._write(f"{group}/{name}", tensor, axes.distinct_axis_names(name, described))
        attributes = self._file[group].attrs
        attributes["module"], attributes["layer"], attributes["mask"] = module, number, mask
        for name in ("scale", "softcap"):
            if options.get(name) is not None:
                attributes[name] = float(options[name])
        self._layers.append(Layer(number, module, group, {name: tuple(t.shape) for name, t in found.items()},
                                  str(query.dtype).removeprefix("torch."), mask, options.get("scale"),
                                  options.get("softcap"), offset, float(options.get("dropout_p") or 0)))
        if self._dout:
            names = axes.distinct_axis_names("q", described)[:3]
            self._await_gradient(where, group, output, (*names, axes.distinct_axis_names("v", described)[3]))

    def _wants(self, number, module):
        if self._wanted is None:
            return True
        for wanted in self._wanted:
            if isinstance(wanted, str):
                if module == wanted or module.startswith(wanted + "."):
                    return True
            elif wanted == number or wanted < 0:
                return True
        return False

    def _replace(self, where):
        """Runs when one layer is wanted and a second call matches. For layer=-1 the second call replaces the first."""
        if isinstance(self._wanted[0], str):
            raise AnnulusError(f"{where}: {self._wanted[0]} calls attention more than once; expected the number of one: "
                               f"{self._layers[-1].number} or {len(self._seen) - 1}")
        self._drop(self._layers.pop())

    def _drop(self, layer):
        self._missing_dout.pop(layer.group, None)
        for name in ("q", "k", "v", "dout"):
            if f"{layer.group}/{name}" in self._file:
                del self._file[f"{layer.group}/{name}"]
        for name in ("scale", "softcap"):
            self._file[layer.group].attrs.pop(name, None)
        if layer.group != "/":
            del self._file[layer.group]

    def _await_gradient(self, where, group, output, names):
        if not output.requires_grad:
            raise AnnulusError(f"{where}: its output needs no gradient; dout=True expects a pass with gradients")
        call = self._missing_dout[group] = [where]  # its own list: arrived() sees if a later call has replaced it

        def arrived(gradient):
            if self._missing_dout.get(group) is call:
                del self._missing_dout[group]
                self._write(f"{group}/dout", _four_axes(where, "dout", gradient), names)

        output.register_hook(arrived)

    def _described(self, where, name, tensor):
        element = _element(where, tensor)
        return tensors.Tensor(f"{where}: {name}", tuple(tensor.shape), element, None, AXES)

    def _write(self, name, tensor, names):
        dataset = hdf5.create(self._file, name, tensor.shape, _element(name, tensor))
        dataset.attrs["axes"] = " ".join(names)
        for entry in range(tensor.shape[0]):  # copies one batch entry at a time to the host
            piece = tensor[entry:entry + 1].detach().cpu().contiguous()
            bits = piece.view(torch.int16).numpy().view(np.uint16) if piece.dtype == torch.bfloat16 else piece.numpy()
            hdf5.write(dataset, tuple(slice(0, n) if axis else slice(entry, entry + 1)
                                      for axis, n in enumerate(tensor.shape)), bits)

    def finish(self):
        """Runs at the end of the block: drops unwanted calls; raises if a wanted call or gradient is missing."""
        if not self._seen:
            raise AnnulusError(f"{self._path}: the model called no scaled_dot_product_attention in the block; expected a "
                               "forward pass, of a model that is not compiled or scripted and whose attention is not "
                               "computed by hand without a cap (Hugging Face: attn_implementation='sdpa')")
        self._settle_numbers()
        for wanted in self._wanted or ():
            if not any(self._answers(wanted, layer) for layer in self._layers):
                raise AnnulusError(f"{self._path}: no attention {wanted!r}; the pass had {len(self._seen)}: "
                                   f"{', '.join(f'{i} {name}' for i, name in enumerate(self._seen[:40]))}")
        if self._missing_dout:
            raise AnnulusError(f"{next(iter(self._missing_dout.values()))[0]}: no gradient arrived; "
                               "expected one backward pass inside the block for dout=True")

    def _answers(self, wanted, layer):
        if isinstance(wanted, str):
            return layer.module == wanted or layer.module.startswith(wanted + ".")
        return layer.number == (wanted if wanted >= 0 else len(self._seen) + wanted)

    def _settle_numbers(self):
        if self._wanted is None:
            return
        for layer in list(self._layers):
            if not any(self._answers(wanted, layer) for wanted in self._wanted):
                self._layers.remove(layer)
                self._drop(layer)

    @arguments.checked(input_file=arguments.path, output_file=arguments.path, layer=arguments.whole(),
                       segments=options.segments, dilations=options.dilations)
    def run_file(self, input_file, output_file, layer=0, segments=("all",), dilations=(1,)):
        """The text of a run file for a captured layer; `layer` is an index into the captured layers.

        Raises AnnulusError if a run file cannot express the layer's mask, and if there is no such layer.
        """
        if not -len(self._layers) <= layer < len(self._layers):
            raise AnnulusError(f"layer is {layer}, expected one of the {len(self._layers)} captured, from 0 on")
        chosen = self._layers[layer]
        if chosen.mask == "other":
            raise AnnulusError(f"layer {chosen.number} ({chosen.module or 'the model itself'}): its mask hides keys, or "
                               "adds to scores, in a way that a run file cannot express (padding, a bias); "
                               "expected no mask, a causal one or a window")
        if chosen.dropout:
            raise AnnulusError(f"layer {chosen.number} ({chosen.module or 'the model itself'}): its attention has dropout "
                               f"{chosen.dropout:g}, and annulus has none; expected 0 (model.eval())")
        if len(segments) != len(dilations):
            raise AnnulusError(f"{len(segments)} segments, {len(dilations)} dilations; expected one of each per pair")
        segments = [length or "all" for length in segments]
        if chosen.mask.startswith("window"):
            if (segments, dilations) != (["all"], (1,)):
                raise AnnulusError(f"layer {chosen.number} ({chosen.module or 'the model itself'}): its mask is a "
                                   f"{chosen.mask}; expected no segments and dilations, because a window takes none")
            segments = [f"{{{chosen.mask.replace(' ', ': ', 1)}}}"]
        names = "" if chosen.group == "/" else "".join(
            f"  {name}: {chosen.group}/{name}\n" for name in ("q", "k", "v", *(("dout",) if self._dout else ())))
        if chosen.query_offset is not None:
            names += f"  query_offset: {chosen.query_offset}\n"
        lines = f"input:\n  file: {_in_yaml(input_file)}\n{names}attention:\n  segments: [{', '.join(map(str, segments))}]\n" \
                f"  dilations: [{', '.join(map(str, dilations))}]\n  causal: {str(chosen.mask == 'causal' or chosen.mask.endswith(', 0]')).lower()}\n"
        for name in ("scale", "softcap"):
            if getattr(chosen, name) is not None:
                lines += f"  {name}: {getattr(chosen, name)}\n"
        if self._dout:
            lines += "compute:\n  backward: true\n"
        return lines + f"output:\n  file: {_in_yaml(output_file)}\n"


def _in_yaml(path):
    """The path as YAML text. Special characters are quoted as JSON, which is YAML. "./" keeps a file called `none` from
    meaning no file."""
    text = str(path) if re.search("[./]", str(path)) else f"./{path}"
    return text if re.fullmatch(r"[\w./-]+", text) else json.dumps(text, ensure_ascii=False)


def _as_autocast(*given):
    """The tensors as the call computes with them: inside torch.autocast PyTorch casts all types but float64."""
    device = given[0].device.type
    if not torch.is_autocast_enabled(device):
        return given
    return [tensor if tensor.dtype == torch.float64 else tensor.to(torch.get_autocast_dtype(device)) for tensor in given]


def _four_axes(where, name, tensor):
    """The tensor as (B, H, S, D); (H, S, D) gets one batch entry."""
    if tensor.dim() == 3:
        return tensor.unsqueeze(0)
    if tensor.dim() != 4:
        raise AnnulusError(f"{where}: {name} has shape {tuple(tensor.shape)}; expected (batch, head, sequence, dim)")
    return tensor


def _element(where, tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in elements.FLOATS:
        raise AnnulusError(f"{where}: has type {name}; expected one of {', '.join(elements.FLOATS)}")
    return elements.named(name)
