package spec

// Engines that serve models.
const (
	EngineVLLM     = "vllm"
	EngineLlamaCPP = "llama.cpp"
)

// Model is a language model that the cluster serves. It may also be written as its source alone.
type Model struct {
	Name         string    `yaml:"-"`
	Source       string    `yaml:"source" short:"text" required:"true" doc:"Its name on Hugging Face, ‘Qwen/Qwen3-8B’."`
	Revision     string    `yaml:"revision" absent:"the newest" doc:"Branch, tag or commit of the source; for llama.cpp a commit, with ‘file’."`
	File         string    `yaml:"file" absent:"the one with ‘quantization’" doc:"For llama.cpp: the GGUF file in the source."`
	SHA256       string    `yaml:"sha256" absent:"none: the size is checked" doc:"For llama.cpp: the digest of ‘file’. Another file is [not served](models.md#weights)."`
	Engine       string    `yaml:"engine" default:"vllm" enum:"vllm,llama.cpp" doc:"What serves it: ‘vllm’, or ‘llama.cpp’ for small and old cards."`
	Quantization string    `yaml:"quantization" absent:"as published; for llama.cpp by ‘file’, else ‘Q4_K_M’" doc:"How weights are stored. vLLM makes ‘fp8’ and ‘bitsandbytes’ itself; others are those of the source."`
	Cache        string    `yaml:"cache" absent:"16 bits" enum:"fp16,fp8,q8_0,q4_0" doc:"Type of keys and values: ‘fp16’; ‘fp8’ (vLLM); ‘q8_0’ or ‘q4_0’ (llama.cpp)."`
	Context      int       `yaml:"context" absent:"what the model was made for" doc:"Tokens of one conversation, question and answer together."`
	Parallel     int       `yaml:"parallel" default:"1" min:"1" max:"256" doc:"Conversations of that length that have room at once."`
	GPUs         int       `yaml:"gpus" default:"1" min:"1" max:"16" doc:"GPUs of each replica; of shared or divided cards, 1 is a share."`
	Pool         string    `yaml:"pool" absent:"any" doc:"Pool of nodes that it runs on, or a node that is in no pool."`
	Replicas     int       `yaml:"replicas" default:"1" min:"1" max:"64" doc:"How often it runs."`
	Awake        string    `yaml:"awake" absent:"always" doc:"Hours of each day, ‘08:00-23:00’, by ‘guest.timezone’. Else it [sleeps](models.md#models-that-sleep), and its GPUs are free."`
	Token        SecretRef `yaml:"token" absent:"none" doc:"Reference to a token of Hugging Face, for models that ask for consent."`
	Mirror       string    `yaml:"mirror" absent:"‘https://huggingface.co’" doc:"URL of a mirror of Hugging Face."`
	Class        string    `yaml:"class" absent:"a class that every node can mount, else the default" doc:"Storage class of the volume that keeps the weights."`
	Size         Size      `yaml:"size" default:"100GiB" doc:"Size of that volume."`
	Image        string    `yaml:"image" absent:"pinned" doc:"Image of the engine."`
}

// Pinned reports whether the file says which content llama.cpp serves. Then [Model.File] is fetched and checked before
// llama.cpp starts, which itself takes only what is newest.
func (m Model) Pinned() bool {
	return m.Engine == EngineLlamaCPP && (m.SHA256 != "" || m.Revision != "")
}

// ModelGateway is LiteLLM: one address for all models, which asks for keys.
type ModelGateway struct {
	_            struct{}   `short:"switch"`
	Hostname     string     `yaml:"hostname" absent:"none: inside the cluster only" doc:"Hostname of the models' address and of LiteLLM's page."`
	Keys         []ModelKey `yaml:"keys,named" absent:"none" doc:"Keys by the name of a person or group."`
	StorageClass string     `yaml:"class" absent:"default class" doc:"Storage class of its database."`
	Size         Size       `yaml:"size" default:"10GiB" doc:"Size of its database's volume. It can grow later."`
}

// ModelChat is Open WebUI: a page where people who sign in talk to the models of the gateway.
type ModelChat struct {
	Hostname     string `yaml:"hostname" required:"true" doc:"Hostname of the page."`
	StorageClass string `yaml:"class" absent:"default class" doc:"Storage class of its database and its files."`
	Size         Size   `yaml:"size" default:"10GiB" doc:"Size of two volumes: its database's, and that of files which people attach. They can grow later."`
}

// ModelKey lets a person or group use models by the gateway.
type ModelKey struct {
	Name     string   `yaml:"-"`
	Models   []string `yaml:"models" absent:"all" doc:"Models that it may use."`
	Requests int      `yaml:"requestsPerMinute" absent:"no limit" min:"1" doc:"Requests a minute."`
	Tokens   int      `yaml:"tokensPerMinute" absent:"no limit" min:"1" doc:"Tokens a minute, questions and answers together."`
}

// Where models are: their namespace, and the names of the gateway's and the chat's Services there. No model has
// such a name, or one that begins with it and a hyphen.
const (
	ModelsNamespace = "models"
	GatewayService  = "gateway"
	ChatService     = "chat"
)

// NotebooksKey is the key that the hub's notebooks share, and ChatKey the chat's; no key of the file has such a
// name.
const (
	NotebooksKey = "notebooks"
	ChatKey      = "chat"
)
