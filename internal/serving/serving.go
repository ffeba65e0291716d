// Package serving says which nodes of a file can serve a language model, by the memory of their cards.
package serving

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/llm"
	"github.com/cps-gpu/homelab/nvidia"
)

// What vLLM and llama.cpp are told, and the fit is computed with.
const (
	Utilization = 0.9  // of a card's memory, that vLLM takes
	Batch       = 2048 // tokens that vLLM reads at once
	Sequences   = 256  // that vLLM decodes at once
	MicroBatch  = 512  // tokens that llama.cpp reads at once
)

// Shape returns what decides how much memory a model takes; false if it is not known here. A source of
// the same name is the same model, no matter who quantized it.
func Shape(m spec.Model) (llm.Model, bool) {
	if known, ok := llm.Known(m.Source); ok {
		return known, true
	}
	name := variant.ReplaceAllString(path.Base(m.Source), "")
	for _, full := range llm.Names() {
		if strings.EqualFold(path.Base(full), name) {
			known, ok := llm.Known(full)
			if q := Quantization(m); q != "" && m.Engine == spec.EngineVLLM {
				known.Weights = q // as this source has published it
			}
			return known, ok
		}
	}
	return llm.Model{}, false
}

// variant is the end of a source's name that says how its weights are stored.
var variant = regexp.MustCompile(`(?i)-(GGUF|AWQ|FP8|GPTQ-Int[48]|bnb-4bit|NVFP4)$`)

// Quantization is how the weights of a source are stored, as the file says it or the source's name does;
// empty: neither does.
func Quantization(m spec.Model) string {
	if m.Quantization != "" {
		return m.Quantization
	}
	if m.Engine == spec.EngineLlamaCPP {
		return fileQuantization(m.File)
	}
	end := strings.ToLower(strings.TrimPrefix(variant.FindString(path.Base(m.Source)), "-"))
	return map[string]string{"awq": "awq", "fp8": "fp8", "gptq-int4": "gptq", "gptq-int8": "int8", "bnb-4bit": "bitsandbytes", "nvfp4": "nvfp4"}[end]
}

// fileQuantization is the quantization in the name of a GGUF file: the longest that is in it.
func fileQuantization(file string) (found string) {
	for _, q := range Quantizations(spec.EngineLlamaCPP) {
		if len(q) > len(found) && strings.Contains(strings.ToUpper(file), strings.ToUpper(q)) {
			found = q
		}
	}
	return found
}

// Quantizations are those that an engine knows, from the best to the smallest.
func Quantizations(engine string) (names []string) {
	for _, q := range llm.Quantizations() {
		if q.Engine == engineOf(engine) {
			names = append(names, q.Name)
		}
	}
	return names
}

func engineOf(name string) llm.Engine {
	if name == spec.EngineLlamaCPP {
		return llm.LlamaCPP
	}
	return llm.VLLM
}

// Plan is how a model is served on cards of so much memory.
func Plan(shape llm.Model, m spec.Model, memory spec.Size) llm.Serving {
	s := llm.Serving{
		Model: shape, Engine: engineOf(m.Engine), Quantization: Quantization(m), Cache: m.Cache, Context: m.Context, Parallel: m.Parallel,
		Cards: m.GPUs, Memory: memory, Utilization: Utilization, Batch: Batch, Sequences: Sequences,
	}
	if m.Engine == spec.EngineLlamaCPP {
		s.Batch = MicroBatch
	}
	return s
}

// Place is a node that a model may run on.
type Place struct {
	Node     spec.Node
	Cards    string    // what they are called; empty: the file does not say
	Memory   spec.Size // of a card, or of a share of one, at least; 0: not known
	Sharers  int       // programs that a card serves at once
	Replicas int       // of the model that have GPUs there
	Err      error     // why the model cannot run there; nil: it can, or that is not known
}

// Places are the nodes of a model's pool that offer GPUs.
func Places(nodes []spec.Node, m spec.Model) (out []Place) {
	for _, n := range nodes {
		if m.Pool != "" && m.Pool != n.PoolName() || offer.GPUsOf(n).Resources[nvidia.Resource] == 0 {
			continue
		}
		out = append(out, placeOn(n, m))
	}
	return out
}

// Targets are the places where a model runs: where it fits, and of those the ones whose cards serve
// the fewest others.
func Targets(all []Place) (out []Place) {
	for _, p := range all {
		if p.Err == nil && (len(out) == 0 || p.Sharers <= out[0].Sharers) {
			if len(out) > 0 && p.Sharers < out[0].Sharers {
				out = nil
			}
			out = append(out, p)
		}
	}
	return out
}

func placeOn(n spec.Node, m spec.Model) Place {
	p := Place{Node: n, Cards: n.GPUs.Model, Sharers: 1}
	if n.GPUs.Sharing.Shared() {
		p.Sharers = max(1, n.GPUs.Sharing.Replicas)
	}
	gpus := max(1, m.GPUs)
	p.Replicas = offer.GPUsOf(n).Resources[nvidia.Resource] / gpus
	instance := instanceMemory(n)
	switch parts := p.Sharers > 1 || instance > 0; {
	case parts && gpus > 1:
		p.Replicas, p.Err = 0, errors.New("its GPUs are shared or divided, and a replica gets one part: gpus: 1")
		return p
	case p.Replicas == 0:
		p.Err = fmt.Errorf("it offers %s", offer.GPUsOf(n))
		return p
	case m.Engine != spec.EngineLlamaCPP && n.GPUs.Sharing.Strategy == spec.SharingMPS:
		p.Err = errors.New("its GPUs are shared by MPS, and vLLM plans with a whole card: engine: llama.cpp, or a pool with another sharing")
		return p
	}
	least, most := cardMemory(n)
	if instance > 0 {
		least, most = instance, instance
	}
	p.Memory = least / spec.Size(p.Sharers)
	if shape, known := Shape(m); known && most > 0 {
		if p.Err = Plan(shape, m, most/spec.Size(p.Sharers)).Check(); p.Err == nil && Plan(shape, m, p.Memory).Check() != nil {
			p.Memory = 0 // it depends on which card of that name the host has
		}
		var lack *llm.FitError
		if errors.As(p.Err, &lack) && (p.Sharers > 1 || instance > 0) {
			lack.Cards = 0 // a pod gets no second part
		}
	}
	return p
}

// cardMemory is what programs can have of a node's cards: of several that its model may mean, the smallest and
// the largest; 0 if it is not known.
func cardMemory(n spec.Node) (least, most spec.Size) {
	if n.GPUs.Model == "" {
		return 0, 0
	}
	for _, g := range nvidia.GPUsOfModel(n.GPUs.Model) {
		if size := g.Usable(); size > 0 {
			least, most = min(cmp.Or(least, size), size), max(most, size)
		}
	}
	return least, most
}

var instanceSize = regexp.MustCompile(`\.([0-9]+)gb`)

// instanceMemory is the memory of the instances into which a node's GPUs are all divided alike; 0: they are
// not. An instance has up to a twentieth less than its profile says: 4864 MiB of 1g.5gb, 19968 MiB of 3g.20gb
// (MIG User Guide, nvidia-smi's output).
func instanceMemory(n spec.Node) spec.Size {
	if offer.GPUsOf(n).MIG != nvidia.MIGSingle {
		return 0
	}
	for profile := range offer.Layouts(n)[0].Profiles {
		if found := instanceSize.FindStringSubmatch(profile); found != nil {
			gb, _ := strconv.Atoi(found[1])
			return spec.Size(gb) * spec.GiB / 20 * 19
		}
	}
	return 0
}

// Largest is the place with most memory for the model: of all where it does not fit, the one to explain.
func Largest(all []Place) Place {
	return slices.MaxFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.Memory, b.Memory))
	})
}

// Refusal says why a model fits nowhere, of which p is the place to explain, and what would do.
func (p Place) Refusal(m spec.Model) (what, cure string) {
	at := p.Node.Name
	if p.Cards != "" {
		at += " (" + p.Cards + ")"
	}
	what, cure, _ = strings.Cut(p.Err.Error(), "; ")
	if errors.As(p.Err, new(*llm.FitError)) {
		return fmt.Sprintf("%s fits on no node. On %s: %s", m.Name, at, what), cure
	}
	if what, cure, found := strings.Cut(what, ": "); found {
		return fmt.Sprintf("%s cannot run on %s: %s", m.Name, at, what), "write " + cure
	}
	return fmt.Sprintf("%s wants %d GPUs on one node, and none has so many. %s: %s", m.Name, m.GPUs, at, what), "write less"
}
