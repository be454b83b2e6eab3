"""annulus.torch.register(): small random models of Hugging Face's transformers with "annulus", "sdpa" and the definition."""
import pytest
import torch
import transformers
from definition import composed, often, pattern_of
from transformers import (BartConfig, BartForConditionalGeneration, BertConfig, BertForMaskedLM, BertLMHeadModel, LlamaConfig,
                          LlamaForCausalLM, MistralConfig, MistralForCausalLM)

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
    """transformers asks PyTorch whether a GPU stream is being captured. PyTorch's wheel for GPUs cannot answer this if
    stand-ins replace the GPU libraries (tools/venv/stubs.py)."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    register()


@pytest.mark.parametrize("model", [llama, bert])
@pytest.mark.parametrize("mask", [None, torch.ones(2, ROWS, dtype=torch.long)])
def test_the_same_as_sdpa(model, mask):
    equal(trained(model("annulus"), attention_mask=mask), trained(model("sdpa"), attention_mask=mask))


@pytest.mark.parametrize("model", [llama, bert])
def test_compiled_as_one_graph(model):
    """Llama runs with a key/value cache, which is its default: compiled without, transformers assumes packed texts."""
    torch.compiler.reset()
    chosen, words = model("annulus"), {"use_cache": True} if model is llama else {}
    equal(trained(chosen, torch.compile(chosen, fullgraph=True, backend="aot_eager"), **words), trained(model("sdpa")))


@pytest.mark.parametrize("model", [llama, bert])
def test_dilated(model):
    """The same results as the definition, which is registered as an attention function, too."""
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
    register(**words)  # replaces the dense "annulus"
    equal(trained(model("annulus")), found)


def padded(left):
    """The mask of two texts: the second one has 17 tokens."""
    mask = torch.ones(2, ROWS, dtype=torch.long)
    mask[1, :7] = 0
    return mask if left else mask.flip(1)


def mistral(attention, window=8, **words):
    config = MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=window, **words)
    return made(MistralForCausalLM, config, attention)


def equal_at_tokens(model, mask, **words):
    """Compares logits at tokens, not at padding, and gradients of a loss that is a sum over these logits."""
    found = []
    for attention in ("annulus", "sdpa"):
        chosen = model(attention)
        logits = chosen(TEXT, attention_mask=mask, **words).logits[mask.bool()]
        chosen.zero_grad()
        logits.square().sum().backward()
        found.append((logits.detach(), {name: weight.grad for name, weight in chosen.named_parameters()}))
    equal(*found, tolerance=1e-9)


@pytest.mark.parametrize("padding", [False, True])
def test_a_bidirectional_mask_wins_over_is_causal(padding):
    """As in LightGlue, whose layers say is_causal=True and whose mask is bidirectional, even without padding."""
    from transformers import masking_utils
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    layer, config = torch.nn.Module(), LlamaConfig(**SIZES)
    layer.is_causal, layer.training, layer.num_key_value_groups = True, False, 1
    q, k, v = torch.randn(3, 2, 4, ROWS, 8, dtype=torch.float64)
    there = padded(False) if padding else torch.ones(2, ROWS, dtype=torch.long)
    found = []
    for attention in ("annulus", "sdpa"):
        config._attn_implementation = attention
        mask = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS[attention](
            batch_size=2, cache_position=torch.arange(ROWS), q_length=ROWS, kv_length=ROWS, q_offset=0, kv_offset=0,
            mask_function=masking_utils.bidirectional_mask_function, attention_mask=there.bool(), dtype=q.dtype,
            device=q.device, config=config, allow_is_bidirectional_skip=False, allow_is_causal_skip=False)
        found.append(ALL_ATTENTION_FUNCTIONS[attention](layer, q, k, v, mask, scaling=0.25)[0][there.bool()])
    assert (found[0] - found[1]).abs().max() < 1e-10


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("model", [llama, bert, mistral])
def test_padding(model, left):
    equal_at_tokens(model, padded(left))


@pytest.mark.parametrize("window", [1, 8, 100])
def test_a_sliding_window(window):
    equal(trained(mistral("annulus", window)), trained(mistral("sdpa", window)))
    assert (mistral("annulus", 8)(TEXT).logits - mistral("annulus", 7)(TEXT).logits).abs().max() > 1e-6


@pytest.mark.parametrize("model", [llama, mistral])
def test_padding_compiled_as_one_graph(model):
    torch.compiler.reset()
    mask, chosen = padded(True), model("annulus")
    run = torch.compile(chosen, fullgraph=True, backend="aot_eager")
    for mask in (padded(True), padded(False)):
        found = run(TEXT, attention_mask=mask, use_cache=True).logits
        assert (found - model("sdpa")(TEXT, attention_mask=mask).logits)[mask.bool()].abs().max() < 1e-10


def test_sinks_and_windows_of_layers_that_take_turns():
    """gpt-oss: every other layer has a window, all have sinks."""
    config = transformers.GptOssConfig(**SIZES, num_key_value_heads=2, sliding_window=6, head_dim=8, num_local_experts=2,
                                       num_experts_per_tok=1, use_cache=False)
    models = [made(transformers.GptOssForCausalLM, config, attention).float() for attention in ("eager", "annulus")]
    with torch.no_grad():
        for layer in models[0].model.layers:
            layer.self_attn.sinks.copy_(torch.tensor([0.5, -1, 2, 0]))
    models[1].load_state_dict(models[0].state_dict())
    models[1].config._attn_implementation = "annulus"
    expected, found = (model(TEXT, attention_mask=padded(True)).logits for model in models)
    assert (expected - found)[padded(True).bool()].abs().max() < 1e-5  # in float32


def refused(model, message, *more, **words):
    with pytest.raises(annulus.AnnulusError) as raised:
        model(*(more or (TEXT,)), **words)
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


@pytest.mark.parametrize("kind, config, name", [
    (transformers.BloomForCausalLM, transformers.BloomConfig(vocab_size=50, hidden_size=32, n_layer=1, n_head=4), "Bloom"),
    (transformers.RoFormerModel, transformers.RoFormerConfig(**SIZES, is_decoder=True), "RoFormer"),
    (transformers.XGLMForCausalLM, transformers.XGLMConfig(vocab_size=50, d_model=32, ffn_dim=48, num_layers=1,
                                                           attention_heads=4), "XGLM"),
    (transformers.MPNetModel, transformers.MPNetConfig(**SIZES), "MPNet")])
def test_models_that_compute_their_softmax_themselves_are_refused(kind, config, name):
    for words in ({}, {"segments": [1], "dilations": [1]}):
        register(**words)
        with pytest.raises(annulus.AnnulusError, match=f"^{name}, the model, computes attention itself") as raised:
            made(kind, config, "annulus")(TEXT)
        assert "\n" not in str(raised.value)


def test_what_it_cannot_do_is_said():
    holes = torch.ones(2, ROWS, dtype=torch.long)
    holes[1, 20:22] = 0
    for model, name in ((llama, "lengths: rows"), (bert, "attn_mask: keys")):
        refused(model("annulus"), f"{name} 0 to 24 of entry 1 have 2 masked ones among them", attention_mask=holes)
        refused(model("annulus"), "attention_mask is a tensor (2, 1, 24, 24), expected (B, S)",
                attention_mask=torch.ones(2, 1, ROWS, ROWS, dtype=torch.bool))
    refused(llama("annulus"), "the model masks by a function of its own", position_ids=torch.arange(ROWS)[None] % 12)
    packed, padded = (torch.arange(ROWS).expand(2, -1) % 12, torch.ones(2, ROWS, dtype=torch.long))
    refused(llama("annulus"), "position_ids go down inside an entry of the batch", position_ids=packed, attention_mask=padded)
    refused(llama("annulus"), "cu_seq_lens_q is given by the model", cu_seq_lens_q=torch.tensor([0, 12, ROWS]))
    register(segments=[8], dilations=[1])
    refused(mistral("annulus"), "sliding_window is 8, expected None with segments= of register()")
    register()
    refused(bert("annulus", attention_probs_dropout_prob=0.1).train(), "dropout is 0.1, expected 0")
    cached = llama("annulus")(TEXT, use_cache=True).past_key_values
    refused(llama("annulus"), "key has 25 rows, query 1: expected as many", TEXT[:, :1], past_key_values=cached)
    for words, message in (({"causal": True}, "causal is no argument here, expected segments, dilations"),
                           ({"segments": [4]}, "segments and dilations go together"),
                           ({"semantic": "paper"}, "register: got an unexpected keyword argument 'semantic'"),
                           ({"progress": print}, "register: got an unexpected keyword argument 'progress'"),
                           ({"sink": [1.0]}, "sink is no argument here"),
                           ({"comm": 3}, "comm is a int, expected an intracommunicator"),
                           ({"name": 3}, "name is 3, expected a name, a text")):
        with pytest.raises(annulus.AnnulusError) as raised:
            register(**words)
        assert str(raised.value).startswith(message)


def bart(attention, rows):
    sizes = {f"{part}_{what}": n for part in ("encoder", "decoder")
             for what, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))}
    config = BartConfig(vocab_size=50, d_model=32, max_position_embeddings=64, dropout=0.0, init_std=0.5, **sizes)
    model, ids = made(BartForConditionalGeneration, config, attention), TEXT
    return model, {"input_ids": ids, "decoder_input_ids": ids[:, :rows], "labels": ids[:, :rows].contiguous(),
                   "use_cache": False}


def bert_decoder(attention, rows):
    config = BertConfig(**SIZES, is_decoder=True, add_cross_attention=True, initializer_range=0.5, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)
    seen = torch.randn(2, ROWS, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return made(BertLMHeadModel, config, attention), {"input_ids": TEXT[:, :rows], "labels": TEXT[:, :rows],
                                                      "encoder_hidden_states": seen, "use_cache": False}


@pytest.mark.parametrize("rows", [ROWS, 7])
@pytest.mark.parametrize("model", [bart, bert_decoder])
def test_cross_attention_to_padded_texts(model, rows):
    """The encoder's padding hides keys. No query of the decoder is padding, even if both have as many rows."""
    mask = torch.ones(2, ROWS, dtype=torch.long)
    mask[1, 10:] = 0
    found = []
    for attention in ("annulus", "sdpa"):
        chosen, words = model(attention, rows)
        words["attention_mask" if model is bart else "encoder_attention_mask"] = mask
        result = chosen(**words)
        result.loss.backward()
        found.append((result.logits.detach(), {name: x.grad for name, x in chosen.named_parameters() if x.grad is not None}))
    equal(*found, tolerance=1e-9)
    register(name="dilated", segments=[8], dilations=[2])
    chosen, words = model("dilated", rows)
    with pytest.raises(annulus.AnnulusError, match="cross attention, whose queries|key has 24 rows, query 7"):
        chosen(**words)


def test_lengths_are_the_models_matter():
    for words in ({"lengths": [3, 4]}, {"query_offset": "none"}):
        with pytest.raises(annulus.AnnulusError, match=f"{next(iter(words))} is no argument here"):
            register(**words)
