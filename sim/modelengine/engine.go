// Package modelengine plays servers of language models, for simulated clusters: vLLM's and llama.cpp's, with
// what they log while they load, how they fail, and OpenAI's API as each of them speaks it. No model is
// loaded, and every answer says so.
//
// Shapes and words are those of vLLM (vllm/entrypoints/openai/engine/protocol.py,
// vllm/v1/core/kv_cache_utils.py) and llama.cpp (tools/server, ggml/src/ggml-cuda), read on 2026-11-29.
package modelengine

import (
	"cmp"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Kind is the program.
type Kind string

// The programs.
const (
	VLLM     Kind = "vllm"
	LlamaCpp Kind = "llama.cpp"
)

// Images are the ends of their images' names, without a registry's host, tag and digest.
func Images() map[Kind]string {
	return map[Kind]string{VLLM: "vllm/vllm-openai", LlamaCpp: "ggml-org/llama.cpp"}
}

// Engine is a server as its command line starts it.
type Engine struct {
	Kind    Kind
	Version string // its image's tag
	Name    string // what clients call the model
	Source  string // where its weights are from
	Context int    // tokens of one request, and of its answer; 0: the model's own
	Key     string // that it asks for, of VLLM_API_KEY or LLAMA_API_KEY; empty: none

	quantization string
	utilization  float64 // part of the cards' memory that it takes
}

// New reads the command line of a container; false if its image has no such program.
func New(image string, args []string) (Engine, bool) {
	e := Engine{utilization: 0.9} // vLLM's default before 0.12, and what a card has free for llama.cpp
	repository, tag := split(image)
	for kind, name := range Images() {
		if strings.HasSuffix(repository, name) {
			e.Kind, e.Version = kind, tag
		}
	}
	flags, positional := parse(args)
	switch e.Kind {
	case VLLM:
		e.Source = cmp.Or(flags["model"], positional)
		e.Name = cmp.Or(flags["served-model-name"], e.Source)
		e.Context, _ = strconv.Atoi(flags["max-model-len"])
		e.quantization = flags["quantization"]
		if u, err := strconv.ParseFloat(flags["gpu-memory-utilization"], 64); err == nil {
			e.utilization = u
		}
	case LlamaCpp:
		file := cmp.Or(flags["hf-file"], flags["hff"])
		e.Source = cmp.Or(flags["hf-repo"], flags["hf"], flags["hfr"], flags["model"], flags["m"])
		e.Name = cmp.Or(flags["alias"], flags["a"], e.Source)
		e.Context, _ = strconv.Atoi(cmp.Or(flags["ctx-size"], flags["c"]))
		_, tag, _ := strings.Cut(e.Source, ":")
		e.quantization = cmp.Or(tag, path.Base(cmp.Or(file, e.Source)))
	default:
		return Engine{}, false
	}
	return e, e.Source != ""
}

// split is an image's repository and its tag.
func split(image string) (repository, tag string) {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i], image[i+1:]
	}
	return image, ""
}

// parse reads flags with their values, with and without "=", and the first word that belongs to none,
// apart from the program's own: vllm serve MODEL.
func parse(args []string) (flags map[string]string, positional string) {
	flags = map[string]string{}
	last := ""
	for _, a := range args {
		if strings.HasPrefix(a, "-") && !number.MatchString(a) {
			name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
			flags[name], last = value, name
			continue
		}
		switch {
		case last != "" && flags[last] == "":
			flags[last] = a
		case positional == "" && a != "serve" && path.Base(a) != "vllm":
			positional = a
		}
		last = ""
	}
	return flags, positional
}

var (
	number = regexp.MustCompile(`^-[0-9.]+$`)
	size   = regexp.MustCompile(`(?i)(?:^|[-_./])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?:[-_.:/]|$)`)
)

// weights is what the model's weights fill, in bytes, by the size and the quantization that names of models
// tell; 0 if its name does not tell a size.
func (e Engine) weights() float64 {
	m := size.FindStringSubmatch(e.Source)
	if m == nil {
		return 0
	}
	billions, _ := strconv.ParseFloat(m[2], 64)
	if experts, err := strconv.ParseFloat(m[1], 64); err == nil {
		billions *= experts
	}
	return billions * 1e9 * e.bytesPerWeight()
}

// bytesPerWeight goes by the quantization, or by what the source's name says of it.
func (e Engine) bytesPerWeight() float64 {
	name := strings.ToLower(e.quantization + " " + e.Source)
	for _, q := range []struct {
		words string
		bytes float64
	}{
		{"q2_|iq2", 0.35}, {"q3_|iq3", 0.45}, {"q4_|iq4|mxfp4|nvfp4", 0.6}, {"q5_", 0.7}, {"q6_", 0.83}, {"q8_", 1.06},
		{"awq|gptq|int4|w4a16|4bit|bitsandbytes", 0.6}, {"fp8|int8|w8a8|8bit", 1},
	} {
		for _, word := range strings.Split(q.words, "|") {
			if strings.Contains(name, word) {
				return q.bytes
			}
		}
	}
	return 2
}
