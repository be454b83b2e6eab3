"""annulus.torch.register(): small random models of Hugging Face's transformers with "annulus", "sdpa" and the definition."""
import pytest
import torch
import transformers
from definition import composed, often, pattern_of
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

import annulus
from annulus.torch import register

ROWS = 24
SIZES = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 64}
TEXT = torch.randint(0, 50, (2, ROWS), generator=torch.Generator().manual_seed(1))


def llama(attention, **words):
    return made(LlamaForCausalLM, LlamaConfig(**SIZES, num_key_value_heads=2, use_cache=False, **words), attention)


def bert(attention, **words):
    words = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} | words
    return made(BertForMaskedLM, BertConfig(**SIZES, **words), attention)


def made(kind, config, attention):
    torch.manual_seed(0)
    config._attn_implementation = attention
    return kind(config).double()


def trained(model, run=None, **words):
    """Logits and the gradients of all weights."""
    found = (model if run is None else run)(TEXT, labels=TEXT, **words)
    model.zero_grad()
    found.loss.backward()
    return found.logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}


def equal(found, expected, tolerance=1e-10):
    assert (found[0] - expected[0]).abs().max() < tolerance
    for name, gradient in expected[1].items():
        assert (found[1][name] - gradient).abs().max() < tolerance, name


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """transformers asks PyTorch whether a GPU is recording; a build for GPUs with stand-ins for their libraries
    (tools/venv/stubs.py) cannot answer that."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    register()


@pytest.mark.parametrize("model", [llama, bert])
@pytest.mark.parametrize("mask", [None, torch.ones(2, ROWS, dtype=torch.long)])
def test_the_same_as_sdpa(model, mask):
    equal(trained(model("annulus"), attention_mask=mask), trained(model("sdpa"), attention_mask=mask))


@pytest.mark.parametrize("model", [llama, bert])
def test_compiled_as_one_graph(model):
    """With a cache, as is Llama's default; without one transformers takes texts for packed when it is compiled."""
    torch.compiler.reset()
    chosen, words = model("annulus"), {"use_cache": True} if model is llama else {}
    equal(trained(chosen, torch.compile(chosen, fullgraph=True, backend="aot_eager"), **words), trained(model("sdpa")))


@pytest.mark.parametrize("model", [llama, bert])
def test_dilated(model):
    """Against the definition as a third attention function."""
    words = {"segments": (8, "all"), "dilations": (1, 3)}

    def definition(module, query, key, value, attention_mask, scaling=None, **_):
        counts = often(ROWS, 4, pattern_of(*words.values(), module.is_causal))
        assert scaling == query.shape[-1] ** -0.5 and attention_mask is None
        return composed(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), counts)[0], None
    transformers.AttentionInterface.register("definition", definition)
    transformers.masking_utils.AttentionMaskInterface.register("definition", lambda *_, **__: None)
    register(name="dilated", **words)
    found, dense = trained(model("dilated")), trained(model("annulus"))
    equal(found, trained(model("definition")))
    assert (found[0] - dense[0]).abs().max() > 1e-3
    register(**words)  # in place of the dense one
    equal(trained(model("annulus")), found)


def refused(model, message, *more, **words):
    with pytest.raises(annulus.AnnulusError) as raised:
        model(*(more or (TEXT,)), **words)
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


def test_what_it_cannot_do_is_said():
    padded = torch.ones(2, ROWS, dtype=torch.long)
    padded[1, 20:] = 0
    for model in (llama, bert):
        refused(model("annulus"), "attention_mask says that 4 of 48 tokens are padding, expected none", attention_mask=padded)
        refused(model("annulus"), "attention_mask is a tensor (2, 1, 24, 24), expected None",
                attention_mask=torch.ones(2, 1, ROWS, ROWS, dtype=torch.bool))
    refused(llama("annulus"), "the model masks by a function of its own", position_ids=torch.arange(ROWS)[None] % 12)
    refused(made(MistralForCausalLM, MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=8), "annulus"),
            "the model masks by a function of its own")
    refused(bert("annulus", attention_probs_dropout_prob=0.1).train(), "dropout is 0.1, expected 0")
    cached = llama("annulus")(TEXT, use_cache=True).past_key_values
    refused(llama("annulus"), "key has 25 rows, query 1: expected as many", TEXT[:, :1], past_key_values=cached)
    for words, message in (({"causal": True}, "causal is no argument here, expected segments, dilations"),
                           ({"segments": [4]}, "segments and dilations go together"),
                           ({"semantic": "paper"}, "attention: got an unexpected keyword argument 'semantic'"),
                           ({"name": 3}, "name is 3, expected a name, a text")):
        with pytest.raises(annulus.AnnulusError) as raised:
            register(**words)
        assert str(raised.value).startswith(message)
