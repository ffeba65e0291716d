// Package modelserver looks after the language models that a cluster serves: it lists their servers, says
// how far one that is not ready has come, and verifies that each answers, with how fast.
//
// The engines are vLLM and llama.cpp's server. Both speak OpenAI's API, and are asked by way of the
// Kubernetes API server, so that this machine needs no route to them.
package modelserver

// Namespace has the model servers: for each model a Deployment and a Service of its name.
const Namespace = "models"

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
)

// Port is the Service's port, by name and number.
const (
	PortName   = "http"
	PortNumber = 8000
)
