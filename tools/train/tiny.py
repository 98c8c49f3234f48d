"""The shapes of the model in the box and of its two drafters, in the words of Google's config.json files.

The target is a small Gemma 4 of the larger kind (31B): sliding and full layers 3 : 1, K = V on the full layers, image
spans that see both ways on the sliding layers, a vision tower with standardised output.  sqrt(256) = 16 is exact.
"""
import json
import os

from train_tokenizer import SPECIALS

VOCAB = 4096
HIDDEN, LAYERS, WINDOW = 256, 8, 256
POSITIONS = 131072  # declared, as by Google's models; rows of training hold 4096 tokens
ID = {name: i for i, name in enumerate(SPECIALS)}
SIDE = 384  # pixels of a picture as the tower sees it: budget 70 makes any square so
PATCH, POOL = 16, 3
GRID = SIDE // PATCH
SOFT_TOKENS = (GRID // POOL) ** 2
BUDGET = 70
SUPPRESSED = [ID[x] for x in ("<pad>", "<bos>", "<unk>", "<mask>", "<|image>", "<image|>", "<|audio>", "<audio|>", "<|image|>", "<|audio|>", "<|video|>")]
STOPS = [ID["<eos>"], ID["<turn|>"], ID["<|tool_response>"]]
ROPE = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}}


def text_config(**more):
    return dict({
        "model_type": "gemma4_text", "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 640, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1, "head_dim": 64, "global_head_dim": 128,
        "attention_k_eq_v": True, "attention_bias": False, "attention_dropout": 0.0, "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": ["full_attention" if i % 4 == 3 else "sliding_attention" for i in range(LAYERS)], "sliding_window": WINDOW,
        "max_position_embeddings": POSITIONS, "rope_parameters": ROPE, "rms_norm_eps": 1e-6, "final_logit_softcapping": 30.0,
        "use_bidirectional_attention": "vision", "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 0,
        "enable_moe_block": False, "use_double_wide_mlp": False, "tie_word_embeddings": True, "initializer_range": 0.02, "use_cache": True,
        "pad_token_id": ID["<pad>"], "bos_token_id": ID["<bos>"], "eos_token_id": ID["<eos>"], "dtype": "bfloat16"}, **more)


def vision_config():
    return {"model_type": "gemma4_vision", "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 3, "num_attention_heads": 4,
            "num_key_value_heads": 4, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "patch_size": PATCH,
            "pooling_kernel_size": POOL, "position_embedding_size": 128, "max_position_embeddings": 4096, "attention_bias": False,
            "attention_dropout": 0.0, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}, "use_clipped_linears": False,
            "standardize": True, "initializer_range": 0.02, "dtype": "bfloat16"}


def target_config():
    return {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": text_config(),
            "vision_config": vision_config(), "audio_config": None, "boi_token_id": ID["<|image>"], "eoi_token_id": ID["<image|>"],
            "image_token_id": ID["<|image|>"], "video_token_id": ID["<|video|>"], "boa_token_id": ID["<|audio>"],
            "eoa_token_index": ID["<audio|>"], "audio_token_id": ID["<|audio|>"], "eos_token_id": STOPS, "tie_word_embeddings": True,
            "initializer_range": 0.02, "dtype": "bfloat16"}


def assistant_config():
    text = text_config(hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_kv_shared_layers=4, final_logit_softcapping=None,
                       use_bidirectional_attention=None, layer_types=["sliding_attention"] * 3 + ["full_attention"])
    return {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant", "text_config": text,
            "backbone_hidden_size": HIDDEN, "use_ordered_embeddings": False, "num_centroids": 2048, "centroid_intermediate_top_k": 32,
            "tie_word_embeddings": True, "dtype": "bfloat16"}


def dflash_config():
    return {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 8,
            "dflash_config": {"mask_token_id": ID["<mask>"], "target_layer_ids": [1, 3, 5, 7]}, "num_target_layers": LAYERS,
            "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 64, "hidden_act": "silu", "layer_types": ["full_attention"] * 2, "sliding_window": None,
            "use_sliding_window": False, "max_window_layers": 2, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "final_logit_softcapping": 30.0, "attention_bias": False,
            "attention_dropout": 0.0, "tie_word_embeddings": True, "dtype": "bfloat16"}


def generation_config():
    return {"bos_token_id": ID["<bos>"], "pad_token_id": ID["<pad>"], "eos_token_id": STOPS, "do_sample": True, "temperature": 1.0,
            "top_k": 64, "top_p": 0.95, "suppress_tokens": SUPPRESSED}


def tokenizer_config():
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
            "mask_token": "<mask>", "add_bos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": POSITIONS,
            "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>", "boa_token": "<|audio>",
            "eoa_token": "<audio|>", "video_token": "<|video|>",
            "extra_special_tokens": {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>",
                                     "boa_token": "<|audio>", "eoa_token": "<audio|>", "video_token": "<|video|>"}}


def processor_config():
    return {"processor_class": "Gemma4Processor", "image_seq_length": BUDGET,
            "image_processor": {"image_processor_type": "Gemma4ImageProcessor", "patch_size": PATCH, "pooling_kernel_size": POOL,
                                "max_soft_tokens": BUDGET, "do_convert_rgb": True, "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255,
                                "do_normalize": False, "resample": 3},
            "video_processor": {"video_processor_type": "Gemma4VideoProcessor", "patch_size": PATCH, "pooling_kernel_size": POOL,
                                "max_soft_tokens": BUDGET, "num_frames": 8, "do_sample_frames": True, "do_convert_rgb": True, "do_resize": True,
                                "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": False, "resample": 3}}


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        json.dump(value, out, indent=1)
        out.write("\n")
