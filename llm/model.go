package llm

// Model is what decides how much memory a language model takes, in the words of its config.json.
type Model struct {
	Name         string // on Hugging Face: Qwen/Qwen3-8B
	Layers       int
	Hidden       int
	Heads        int
	KVHeads      int // keys and values are shared by Heads/KVHeads heads
	HeadDim      int
	Intermediate int // of a dense feed-forward layer
	Vocabulary   int
	Tied         bool // embeddings and output layer are one matrix
	Context      int  // tokens that it was made for, at most

	Window   int // tokens that a layer with a sliding window sees; 0: no layer has one
	Windowed int // layers with a sliding window
	Linear   int // layers with linear attention, which keep no tokens

	Experts            int // 0: a dense model
	ActiveExperts      int // of them used for a token
	ExpertIntermediate int
	SharedIntermediate int // of the expert that every token uses; 0: there is none
	DenseLayers        int // layers without experts

	LinearWidth int    // sum of the widths of keys, queries, values and gates of a layer with linear attention
	LinearOut   int    // width of its output
	GatedHeads  bool   // attention has a gate as wide as its queries
	Other       int64  // parameters beside the text model, such as a vision tower
	Weights     string // as published: a name of [Quantizations] such as bf16, fp8 or mxfp4
}

// Parameters is how many parameters the model has, without biases and norms, which are less than
// a thousandth.
func (m Model) Parameters() int64 {
	return m.embedding() + m.output() + m.experts() + m.inner() + m.Other
}

func (m Model) embedding() int64 { return product(m.Vocabulary, m.Hidden) }

// output are the parameters of the output layer, unless it is the embeddings.
func (m Model) output() int64 {
	if m.Tied {
		return 0
	}
	return m.embedding()
}

// experts are the parameters of all experts but the shared one.
func (m Model) experts() int64 {
	return product(3, m.Layers-m.DenseLayers, m.Experts, m.Hidden, m.ExpertIntermediate)
}

// inner are the parameters of attention, dense layers, shared experts and routers.
func (m Model) inner() int64 {
	queries := m.Heads * m.HeadDim
	if m.GatedHeads {
		queries *= 2
	}
	attention := product(m.Layers-m.Linear, m.Hidden, queries+2*m.KVHeads*m.HeadDim+m.Heads*m.HeadDim)
	linear := product(m.Linear, m.Hidden, m.LinearWidth+m.LinearOut)
	if m.Experts == 0 {
		return attention + linear + product(3, m.Layers, m.Hidden, m.Intermediate)
	}
	routed := m.Layers - m.DenseLayers
	return attention + linear + product(3, m.DenseLayers, m.Hidden, m.Intermediate) +
		product(routed, m.Hidden, m.Experts) + product(3, routed, m.Hidden, m.SharedIntermediate)
}

// widest is how many values of feed-forward layers a token has at once.
func (m Model) widest() int {
	if m.Experts == 0 {
		return m.Intermediate
	}
	return max(m.ActiveExperts*m.ExpertIntermediate+m.SharedIntermediate, m.ExpertIntermediate)
}

func product(factors ...int) int64 {
	p := int64(1)
	for _, f := range factors {
		p *= int64(f)
	}
	return p
}
