"""Twenty architectures of transformers, tiny, from their configs: by type, class, settings, inputs (types and shapes of a sample) and targets."""

VOCABULARY = 64
TEXT = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 32}
DECODER = {**TEXT, "num_attention_heads": 4, "num_key_value_heads": 2}
ENCODER = {**TEXT, "num_attention_heads": 2}
IMAGE = {"image_size": 16, "patch_size": 4, "num_channels": 3, "num_labels": 5,
         "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TOKENS = {"input_ids": "i64[16]"}
MASKED = {"input_ids": "i64[16]", "attention_mask": "i64[16]"}
PIXELS, MORE_PIXELS = {"pixel_values": "f32[3,16,16]"}, {"pixel_values": "f32[3,32,32]"}

# name: (type, class, settings, inputs, shape of a sample's targets, number of classes)
MODELS = {
    "gpt2": ("gpt2", "GPT2LMHeadModel", {"vocab_size": VOCABULARY, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}, TOKENS, [16], VOCABULARY),
    "llama": ("llama", "LlamaForCausalLM", DECODER, TOKENS, [16], VOCABULARY),
    "qwen3": ("qwen3", "Qwen3ForCausalLM", {**DECODER, "head_dim": 8}, TOKENS, [16], VOCABULARY),
    "gemma2": ("gemma2", "Gemma2ForCausalLM", {**DECODER, "head_dim": 8, "sliding_window": 8}, TOKENS, [16], VOCABULARY),
    "mistral": ("mistral", "MistralForCausalLM", {**DECODER, "sliding_window": 8}, TOKENS, [16], VOCABULARY),
    "mixtral": ("mixtral", "MixtralForCausalLM", {**DECODER, "num_local_experts": 4}, TOKENS, [16], VOCABULARY),
    "gpt_neox": ("gpt_neox", "GPTNeoXForCausalLM", {**TEXT, "num_attention_heads": 4}, TOKENS, [16], VOCABULARY),
    "mamba": ("mamba", "MambaForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}, TOKENS, [16], VOCABULARY),
    "bert_mlm": ("bert", "BertForMaskedLM", ENCODER, MASKED, [16], VOCABULARY),
    "bert_cls": ("bert", "BertForSequenceClassification", {**ENCODER, "num_labels": 3}, MASKED, [], 3),
    "distilbert": ("distilbert", "DistilBertForSequenceClassification",
                   {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "max_position_embeddings": 32, "num_labels": 3},
                   MASKED, [], 3),
    "roberta": ("roberta", "RobertaForSequenceClassification", {**ENCODER, "max_position_embeddings": 40, "num_labels": 3}, MASKED, [], 3),
    "t5": ("t5", "T5ForConditionalGeneration", {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
           {"input_ids": "i64[8]", "decoder_input_ids": "i64[8]"}, [8], VOCABULARY),
    "vit": ("vit", "ViTForImageClassification", IMAGE, PIXELS, [], 5),
    "dinov2": ("dinov2", "Dinov2ForImageClassification", IMAGE, PIXELS, [], 5),
    "swin": ("swin", "SwinForImageClassification", {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 2], "window_size": 4,
                                                    "num_labels": 5}, MORE_PIXELS, [], 5),
    "convnext": ("convnext", "ConvNextForImageClassification", {"num_channels": 3, "hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "num_labels": 5,
                                                                "image_size": 32}, MORE_PIXELS, [], 5),
    "resnet": ("resnet", "ResNetForImageClassification", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic",
                                                          "num_labels": 5}, MORE_PIXELS, [], 5),
    "wav2vec2": ("wav2vec2", "Wav2Vec2ForSequenceClassification",
                 {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "conv_dim": [16, 16], "conv_stride": [5, 2],
                  "conv_kernel": [10, 3], "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "num_labels": 3,
                  "mask_time_prob": 0.0, "layerdrop": 0.0}, {"input_values": "f32[400]"}, [], 3),
    "whisper": ("whisper", "WhisperForConditionalGeneration",
                {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
                 "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16, "pad_token_id": 0,
                 "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
                {"input_features": "f32[8,32]", "decoder_input_ids": "i64[6]"}, [6], VOCABULARY),
}
