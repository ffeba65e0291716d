// Package models completes and checks models: what is served, by which engine, and whether it fits the
// cards of the file.
package models

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/serving"
	"github.com/cps-gpu/homelab/llm"
	"github.com/cps-gpu/homelab/nvidia"
)

type section struct {
	*decode.Checker
	spec *spec.Spec
}

// Complete completes and checks a file's models. Its nodes and storage are complete.
func Complete(c *decode.Checker, s *spec.Spec) {
	r, before := section{c, s}, len(c.Problems)
	for i := range s.Platform.Models {
		m := &s.Platform.Models[i]
		if shape, known := serving.Shape(*m); known {
			m.Context = cmp.Or(m.Context, shape.Context)
		}
		m.Class = cmp.Or(m.Class, weightsClass(&s.Platform.Storage))
		r.names(m)
		r.engine(m)
		r.replicas(m)
		r.weights(m)
		if len(c.Problems) == before && len(s.Nodes) > 0 {
			r.fits(m)
		}
	}
	if len(c.Problems) == before {
		r.together()
	}
	r.gateway()
	r.chat()
}

// weightsClass is one that every node can mount, if the file makes one.
func weightsClass(st *spec.Storage) string {
	switch {
	case st.NFS != nil:
		return st.NFS.Class
	case st.CephFS != nil:
		return st.CephFS.Class
	}
	return cmp.Or(st.Default, spec.LocalPath)
}

func (r section) names(m *spec.Model) {
	if !decode.DNSLabel.MatchString(m.Name) || m.Name[0] < 'a' || len(m.Name) > 40 {
		r.Wrong(m, fmt.Sprintf("%q cannot be a model's name", m.Name), "write at most 40 lower-case letters, digits and hyphens, beginning with a letter; source: says what it is")
	}
	for own, is := range map[string]bool{spec.GatewayService: r.spec.Platform.ModelGateway != nil, spec.ChatService: r.spec.Platform.ModelChat != nil} {
		if is && (m.Name == own || strings.HasPrefix(m.Name, own+"-")) {
			r.Wrong(m, fmt.Sprintf("%s is a name of the %s's", m.Name, own), "write a name that does not begin with "+own)
		}
	}
	if m.Source == "" {
		r.Wrong(&m.Source, fmt.Sprintf("the model %s has no source", m.Name), "write source: owner/name, e.g. Qwen/Qwen3-8B")
	} else if !decode.Matches(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`, m.Source) {
		r.Wrong(&m.Source, fmt.Sprintf("%q is not the name of a model on Hugging Face", m.Source), "write owner/name, e.g. Qwen/Qwen3-8B")
	}
	if m.Revision != "" && !decode.Matches(`^[A-Za-z0-9][\w./-]*$`, m.Revision) {
		r.Wrong(&m.Revision, fmt.Sprintf("%q cannot be a revision", m.Revision), "write the commit that the model's page shows under Files")
	}
	if m.File != "" && !decode.Matches(`^[A-Za-z0-9][\w./-]*\.gguf$`, m.File) {
		r.Wrong(&m.File, fmt.Sprintf("%q is not a GGUF file", m.File), "write its path in the source, e.g. Qwen3-8B-Q4_K_M.gguf")
	}
	if m.Image != "" && !decode.Matches(`^[a-z0-9][\w./:@-]*$`, m.Image) {
		r.Wrong(&m.Image, fmt.Sprintf("%q cannot be an image", m.Image), "write it with its tag, e.g. vllm/vllm-openai:v0.30.0")
	}
	r.IsURL(&m.Mirror, "https", "http")
	if m.Pool != "" && len(r.spec.Nodes) > 0 && !r.spec.HasPool(m.Pool) {
		var pools []string
		for _, n := range r.spec.Nodes {
			if !slices.Contains(pools, n.PoolName()) {
				pools = append(pools, n.PoolName())
			}
		}
		r.Wrong(&m.Pool, fmt.Sprintf("there is no pool %q of nodes", m.Pool), decode.OrSuggest(m.Pool, pools))
	}
}

// engine checks what only one of the engines can do.
func (r section) engine(m *spec.Model) {
	llama := m.Engine == spec.EngineLlamaCPP
	if !llama && m.File != "" {
		r.Wrong(&m.File, "vLLM takes all files of a source", "remove file, or write engine: llama.cpp")
	}
	r.pins(m)
	known := serving.Quantizations(m.Engine)
	if q := m.Quantization; q != "" && !slices.Contains(known, q) {
		r.Wrong(&m.Quantization, fmt.Sprintf("%s has no quantization %q", m.Engine, q), decode.OrSuggest(q, known))
	} else if q != "" {
		r.quantization(m)
	}
	if m.Cache == "fp8" && llama || strings.HasPrefix(m.Cache, "q") && !llama {
		r.Wrong(&m.Cache, fmt.Sprintf("%s has no cache %s", m.Engine, m.Cache), "write "+map[bool]string{true: "fp16, q8_0 or q4_0", false: "fp16 or fp8"}[llama])
	}
	if llama && m.Replicas > 1 && !m.Pinned() { // two downloads append to one file (common/download.cpp, b11206)
		r.Wrong(&m.Replicas, "replicas of llama.cpp would download into the same file", "write file: and sha256:, or parallel: for more conversations at once")
	}
}

// pins checks what says which content of a source is served.
func (r section) pins(m *spec.Model) {
	m.SHA256 = strings.ToLower(m.SHA256)
	at := any(&m.SHA256)
	if m.SHA256 == "" {
		at = &m.Revision
	}
	switch {
	case m.SHA256 != "" && !decode.Matches(`^[0-9a-f]{64}$`, m.SHA256):
		r.Wrong(&m.SHA256, "sha256 is not a SHA-256", "write its 64 hex digits, which the file's page shows")
	case m.SHA256 != "" && m.Engine != spec.EngineLlamaCPP:
		r.Wrong(&m.SHA256, "vLLM takes all files of a source, and a digest is of one", "remove sha256, and write revision: with a commit")
	case !m.Pinned():
	case m.File == "":
		r.Wrong(at, "llama.cpp can be held to one file, and none is named", "write file:, e.g. Qwen3-8B-Q4_K_M.gguf")
	case decode.Matches(`-\d{5}-of-\d{5}\.gguf$`, m.File):
		r.Wrong(at, fmt.Sprintf("%s is one part of a model, and only a whole file can be checked", m.File), "name a file that is whole, or remove revision and sha256: llama.cpp downloads all parts")
	case m.SHA256 == "" && !decode.Matches(`^[0-9a-f]{40}$`, m.Revision):
		r.Wrong(at, fmt.Sprintf("%s can become another file, and llama.cpp's is fetched once", m.Revision), "write the commit, 40 hex digits, or sha256: with the file's digest")
	}
}

// quantization compares what is asked for with what the source is.
func (r section) quantization(m *spec.Model) {
	named := *m
	named.Quantization = ""
	its := serving.Quantization(named) // by the name of source or file
	if m.Engine == spec.EngineLlamaCPP {
		if m.File != "" && its != "" && its != m.Quantization {
			r.Wrong(&m.Quantization, fmt.Sprintf("%s is %s by its name, not %s", m.File, its, m.Quantization), "remove quantization, or name another file")
		}
		return
	}
	shape, known := llm.Known(m.Source)
	if known {
		its = shape.Weights
	}
	made := []string{"fp32", "bf16", "fp16", "fp8", "bitsandbytes"}
	if its != "" && m.Quantization != its && (!slices.Contains(made, m.Quantization) || !slices.Contains(made[:3], its)) {
		r.Wrong(&m.Quantization, fmt.Sprintf("%s is published as %s, and vLLM cannot make %s of it", m.Source, its, m.Quantization),
			"name a source that is published so, or remove quantization; of 16 bits vLLM makes fp8 and bitsandbytes")
	}
}

func (r section) replicas(m *spec.Model) {
	r.CheckRange(&m.Parallel, "parallel", 1, 256)
	r.CheckRange(&m.GPUs, "gpus", 1, 16)
	r.CheckRange(&m.Replicas, "replicas", 1, 64)
	if shape, known := serving.Shape(*m); known && shape.Context > 0 && m.Context > shape.Context {
		r.Wrong(&m.Context, fmt.Sprintf("%s was made for %d tokens, not %d", m.Source, shape.Context, m.Context), "write less")
	}
	if r.IsSet(&m.Context) && m.Context < 1 {
		r.Wrong(&m.Context, fmt.Sprintf("context is %d", m.Context), "write a number of tokens, e.g. 8192")
	}
	if m.Engine == spec.EngineLlamaCPP && m.Parallel > 1 && m.Context == 0 {
		r.Wrong(&m.Parallel, fmt.Sprintf("llama.cpp divides its context, and that of %s is not known here", m.Source), "write context: with the tokens of one conversation")
	}
	if _, err := spec.ParseHours(m.Awake); m.Awake != "" && err != nil {
		r.Wrong(&m.Awake, err.Error(), "write when it begins and ends, e.g. 08:00-23:00")
	}
	scratch := r.spec.Platform.Storage.Scratch
	if m.Replicas > 1 && (m.Class == spec.LocalPath || scratch != nil && m.Class == scratch.Class) {
		r.Wrong(&m.Replicas, fmt.Sprintf("volumes of %s stay on one node, and replicas share their weights", m.Class),
			"write storage: {nfs: server:/export}, or class: with another class, or replicas: 1")
	}
}

// weights checks that the volume has room for the weights.
func (r section) weights(m *spec.Model) {
	shape, known := serving.Shape(*m)
	if !known {
		return
	}
	one := *m
	one.GPUs = 1
	if needs := serving.Plan(shape, one, 0).Fit().Weights; needs > m.Size {
		r.Wrong(&m.Size, fmt.Sprintf("the weights of %s take %.0f GiB, and their volume has %s", m.Source, float64(needs)/float64(spec.GiB), m.Size),
			fmt.Sprintf("write size: %dGiB", (needs/spec.GiB/50+1)*50))
	}
}

// fits compares the model with the cards of the nodes.
func (r section) fits(m *spec.Model) {
	places := serving.Places(r.spec.Nodes, *m)
	if r.spec.NVIDIA.Stack == spec.StackNone || len(places) == 0 {
		where := "no node"
		if m.Pool != "" {
			where = "no node of pool " + m.Pool
		}
		r.Wrong(m, fmt.Sprintf("%s offers %s, and %s needs them", where, nvidia.Resource, m.Name), "write gpus: in a pool of nodes")
		return
	}
	shape, known := serving.Shape(*m)
	if err := serving.Plan(shape, *m, 0).Validate(); known && err != nil { // of these, only the number of cards is not checked yet
		r.Wrong(&m.GPUs, err.Error(), "write gpus: 1, 2 or 4")
		return
	}
	chosen, room := serving.Targets(places), 0
	for _, p := range chosen {
		room += p.Replicas
	}
	switch {
	case len(chosen) == 0:
		r.refuse(m, serving.Largest(places))
	case room < m.Replicas:
		r.Wrong(&m.Replicas, fmt.Sprintf("the nodes have GPUs for %d replicas of %s, not %d", room, m.Name, m.Replicas), "write less, or add cards")
	case !known:
		r.Warn(&m.Source, fmt.Sprintf("the size of %s is not known here, so nothing checks whether it fits", m.Source), "if it does not start, write less context")
	case slices.ContainsFunc(chosen, unmeasured):
		i := slices.IndexFunc(chosen, unmeasured)
		r.Warn(m, fmt.Sprintf("the file does not say how much memory the cards of %s have, so nothing checks whether %s fits", chosen[i].Node.Name, m.Name),
			"write gpus: {count: …, model: …} with the cards' whole name")
	}
}

// unmeasured reports whether nobody knows how much memory the cards of a place have: those that homelab chooses on a
// Proxmox host are known before anything is made.
func unmeasured(p serving.Place) bool {
	return p.Memory == 0 && (!p.Node.OnProxmox() || len(p.Node.GPUs.Mapping) > 0)
}

// refuse says why the model fits nowhere, and what would.
func (r section) refuse(m *spec.Model, best serving.Place) {
	at := r.blame(m)
	if best.Replicas == 0 {
		at = &m.GPUs
	}
	what, cure := best.Refusal(*m)
	r.Wrong(at, what, cure)
}

// blame is the field that most likely has to change.
func (r section) blame(m *spec.Model) any {
	for _, at := range []any{&m.Context, &m.Parallel, &m.Quantization} {
		if r.IsSet(at) {
			return at
		}
	}
	return m
}

// together checks that the nodes have GPUs for all models at once.
func (r section) together() {
	offered, wanted := offer.All(r.spec)[nvidia.Resource], 0
	var names []string
	for i := range r.spec.Platform.Models {
		m := &r.spec.Platform.Models[i]
		wanted += m.GPUs * m.Replicas
		names = append(names, m.Name)
		if wanted > offered && len(r.spec.Nodes) > 0 {
			r.Wrong(m, fmt.Sprintf("%s take %d GPUs together, and the nodes offer %d", strings.Join(names, " and "), wanted, offered), "remove one, or write fewer gpus or replicas")
			return
		}
	}
}
