// Package modelserver looks after the language models that a cluster serves: it lists their servers, says
// how far one that is not ready has come, and verifies that each answers, with how fast.
//
// The engines are vLLM and llama.cpp's server. Both speak OpenAI's API, and are asked by way of the
// Kubernetes API server, so that this machine needs no route to them.
package modelserver

import "github.com/cps-gpu/homelab/cluster/spec"

// Namespace has the model servers: for each model a Deployment and a Service of its name.
const Namespace = spec.ModelsNamespace

// Component is the label app.kubernetes.io/component of a model server's Deployment and pods; NameLabel
// has the model's name.
const (
	ComponentLabel = "app.kubernetes.io/component"
	Component      = "model-server"
	NameLabel      = "app.kubernetes.io/name"
)

// Annotations of a Deployment.
const (
	SourceNote  = "homelab.cps-gpu.github.com/model"   // where the model is from, such as Qwen/Qwen2.5-7B-Instruct
	EngineNote  = "homelab.cps-gpu.github.com/engine"  // an Engine
	ContextNote = "homelab.cps-gpu.github.com/context" // tokens that one request can have
	AwakeNote   = "homelab.cps-gpu.github.com/awake"   // hours in which it is served, such as 08:00-23:00 Europe/Vienna
)

// Port is the Service's port, by name and number.
const (
	PortName   = "http"
	PortNumber = 8000
)

// The gateway in front of the servers, in the same namespace.
const (
	GatewayService  = spec.GatewayService // of its Deployment and Service, and of the Secret with MasterKey
	GatewayPort     = 4000
	GatewayDatabase = GatewayService + "-db"
	MasterKey       = "master-key"

	KeyPrefix = "sk-" // LiteLLM takes no other keys (litellm/proxy/auth/user_api_key_auth.py)

	KeysSecret   = GatewayService + "-keys"    // keys of the file, by their names
	EngineSecret = GatewayService + "-engines" // what servers ask for when a gateway is in front of them
	EngineKey    = "key"
	ChatSecret   = GatewayService + "-chat" // the chat's key
	ChatKey      = "key"
)

// Secrets in the hub's namespace: the key that its notebooks share, by the name of the variable that they have it in,
// and copies of the keys of KeysSecret, by their names.
const (
	NotebooksSecret = "model-key"
	NotebooksKey    = "OPENAI_API_KEY"
	PeopleSecret    = "model-keys"
)
