package llm

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Serving is a model on the cards of one machine. The zero value of a field is its default.
type Serving struct {
	Model        Model
	Engine       Engine    // default [VLLM]
	Quantization string    // default: as published; for llama.cpp Q4_K_M, or MXFP4 of a model that is published so
	Cache        string    // type of keys and values: fp16 (default), fp8 (vLLM), q8_0 or q4_0 (llama.cpp)
	Context      int       // tokens of a sequence; default: what the model was made for
	Parallel     int       // sequences of that length at once; default 1
	Cards        int       // the model is divided among them; default 1
	Memory       unit.Size // of one card, as CUDA shows it

	Utilization float64 // part of a card's memory that vLLM may use; default 0.9
	Batch       int     // tokens that are read at once; default 2048, for llama.cpp 512
	Sequences   int     // that vLLM decodes at once, --max-num-seqs; default 256
}

// Fit is what a model takes of each card, in bytes.
type Fit struct {
	Weights, Cache, Overhead unit.Size
	Available                unit.Size
}

// Spare is what is left; less than 0 if the model does not fit.
func (f Fit) Spare() unit.Size { return f.Available - f.Weights - f.Cache - f.Overhead }

// Fits reports whether the model fits.
func (f Fit) Fits() bool { return f.Spare() >= 0 }

// String returns e.g. "15.0 GiB of weights, 4.0 GiB of KV cache and 1.3 GiB of overhead, of 21.2 GiB".
func (f Fit) String() string {
	return fmt.Sprintf("%s of weights, %s of KV cache and %s of overhead, of %s", gib(f.Weights), gib(f.Cache), gib(f.Overhead), gib(f.Available))
}

func gib(s unit.Size) string { return fmt.Sprintf("%.1f GiB", float64(s)/float64(unit.GiB)) }

const (
	cudaBytes = unit.GiB / 2 // of CUDA and its libraries, measured 0.35 to 0.5 GiB
	ncclBytes = unit.GiB / 2 // of NCCL's buffers with several cards
)

func (s Serving) complete() Serving {
	s.Engine = cmp.Or(s.Engine, VLLM)
	if s.Engine == LlamaCPP {
		usual := "Q4_K_M"
		if s.Model.Weights == "mxfp4" {
			usual = "MXFP4"
		}
		s.Quantization = cmp.Or(s.Quantization, usual)
	}
	s.Quantization = cmp.Or(s.Quantization, s.Model.Weights, "bf16")
	s.Context, s.Parallel, s.Cards = cmp.Or(s.Context, s.Model.Context), cmp.Or(s.Parallel, 1), cmp.Or(s.Cards, 1)
	s.Utilization, s.Sequences = cmp.Or(s.Utilization, 0.9), cmp.Or(s.Sequences, 256)
	if s.Batch == 0 {
		s.Batch = map[Engine]int{VLLM: 2048, LlamaCPP: 512}[s.Engine]
	}
	return s
}

// Validate reports what is not known or cannot be, without regard to memory.
func (s Serving) Validate() error {
	s = s.complete()
	var all []error
	if s.Engine != VLLM && s.Engine != LlamaCPP {
		return fmt.Errorf("engine %q: want %s or %s", s.Engine, VLLM, LlamaCPP)
	}
	if _, known := findQuantization(s.Engine, s.Quantization); !known {
		all = append(all, fmt.Errorf("%s has no quantization %q", s.Engine, s.Quantization))
	}
	if _, known := cacheBytes(s.Cache); !known {
		all = append(all, fmt.Errorf("no KV cache of type %q: want fp16, fp8, q8_0 or q4_0", s.Cache))
	}
	if s.Model.Context > 0 && s.Context > s.Model.Context {
		all = append(all, fmt.Errorf("%s was made for %d tokens, not %d", s.Model.Name, s.Model.Context, s.Context))
	}
	if s.Cards < 1 || s.Engine == VLLM && s.Model.Heads%s.Cards != 0 {
		all = append(all, fmt.Errorf("vLLM cannot divide the %d heads of %s among %d cards", s.Model.Heads, s.Model.Name, s.Cards))
	}
	return errors.Join(all...)
}

// Fit computes what the model takes. What [Serving.Validate] refuses is computed as the next best.
func (s Serving) Fit() Fit {
	s = s.complete()
	if s.Engine == LlamaCPP {
		return s.llamaCPP()
	}
	perCard := s.Cards
	f := Fit{
		Weights:   s.weights() / unit.Size(perCard),
		Cache:     s.cache(max(1, (s.Model.KVHeads+perCard-1)/perCard)),
		Available: unit.Size(s.Utilization * float64(s.Memory)),
	}
	activations := product(2, 3, s.Batch, s.Model.Hidden+(s.Model.widest()+perCard-1)/perCard)
	f.Overhead = unit.Size(activations+product(20, s.Model.Vocabulary, s.Sequences)) + cudaBytes
	if perCard > 1 {
		f.Overhead += ncclBytes
	}
	return f
}

// llamaCPP divides whole layers among the cards; the output layer counts as one. Its attention has a mask of
// two bytes for each token of a batch and of the context.
func (s Serving) llamaCPP() Fit {
	layers := s.Model.Layers + 1
	most := (layers + s.Cards - 1) / s.Cards
	share := func(b unit.Size) unit.Size { return unit.Size(float64(b) * float64(most) / float64(layers)) }
	return Fit{
		Weights:   share(s.weights()),
		Cache:     share(s.cache(s.Model.KVHeads)),
		Overhead:  unit.Size(product(4, s.Batch, s.Model.Vocabulary+8*s.Model.Hidden)+product(2, s.Batch, s.Context)) + cudaBytes,
		Available: s.Memory,
	}
}

// weights are the bytes of all weights that have to be on cards.
func (s Serving) weights() unit.Size {
	q, _ := findQuantization(s.Engine, s.Quantization)
	m := s.Model
	outer := float64(m.embedding()+m.output()+m.Other) * q.Outer
	if s.Engine == LlamaCPP && !m.Tied {
		outer -= float64(m.embedding()) * q.Outer
	}
	inner := q.Bits
	if q.Experts {
		inner = q.Outer
	}
	return unit.Size((outer + float64(m.experts())*q.Bits + float64(m.inner())*inner) / 8)
}

// cache are the bytes of keys and values, for a number of KV heads.
func (s Serving) cache(heads int) unit.Size {
	m := s.Model
	bytes, _ := cacheBytes(s.Cache)
	perToken := 2 * float64(heads*m.HeadDim) * bytes
	window := min(s.Context, m.Window+s.Batch)
	tokens := int64(m.Layers-m.Windowed-m.Linear)*int64(s.Context) + int64(m.Windowed)*int64(window)
	return unit.Size(perToken * float64(tokens) * float64(s.Parallel))
}
