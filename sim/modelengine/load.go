package modelengine

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Machine is what an engine finds in its container.
type Machine struct {
	Cards []float64 // memory of each, in bytes
	Token bool      // there is one of Hugging Face
}

// Start is how an engine starts: what it logs, line by line, and with which code it ends; 0 if it serves.
type Start struct {
	Lines []string
	Code  int
}

const gib = 1 << 30

// gated are those of whom a licence has to be accepted first.
func gated(source string) bool {
	return strings.HasPrefix(source, "meta-llama/") || strings.HasPrefix(source, "google/gemma-")
}

// Load says how the engine starts on a machine at a time.
func (e Engine) Load(m Machine, now time.Time) Start {
	l := &log{Engine: e, now: now}
	l.add("(simulated: the lab loads no model)")
	if e.Kind == LlamaCpp {
		return l.llamaCpp(m)
	}
	return l.vllm(m)
}

// log writes lines as the engine's logger does.
type log struct {
	Engine
	now   time.Time
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// info is a line of vLLM's logger.
func (l *log) info(where, format string, args ...any) { l.level("INFO", where, format, args...) }

func (l *log) level(level, where, format string, args ...any) {
	l.add("(EngineCore_DP0 pid=112) %s %s [%s] %s", level, l.now.Format("01-02 15:04:05"), where, fmt.Sprintf(format, args...))
}

// fail ends vLLM: the engine's process says why, and the one that started it says that it ended.
func (l *log) fail(why string) Start {
	l.level("ERROR", "core.py:708", "EngineCore failed to start.")
	l.level("ERROR", "core.py:708", "%s", why)
	l.add("(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}")
	return Start{l.lines, 1}
}

func (l *log) vllm(m Machine) Start {
	l.info("api_server.py:1839", "vLLM API server version %s", cmp.Or(strings.TrimPrefix(l.Version, "v"), "unknown"))
	total := 0.0
	for _, c := range m.Cards {
		total += c
	}
	switch {
	case len(m.Cards) == 0:
		l.add("(APIServer pid=1) RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue.")
		return Start{l.lines, 1}
	case gated(l.Source) && !m.Token:
		l.add("(APIServer pid=1) OSError: You are trying to access a gated repo.")
		l.add("(APIServer pid=1) Access to model %s is restricted. You must have access to it and be authenticated to access it. Please log in.", l.Source)
		return Start{l.lines, 1}
	}
	l.info("gpu_model_runner.py:2602", "Starting to load model %s...", l.Source)
	if need := l.weights() / float64(len(m.Cards)); need > m.Cards[0]*0.98 {
		l.level("ERROR", "gpu_model_runner.py:2627", "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using --quantization.")
		return l.fail(fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of %.2f GiB of which 101.44 MiB is free.", m.Cards[0]/gib))
	}
	l.info("weight_utils.py:392", "Time spent downloading weights for %s: 0.0 seconds", l.Source)
	l.info("default_loader.py:267", "Loading weights took 0.90 seconds")
	free := total*l.utilization - l.weights()
	l.info("gpu_worker.py:298", "Available KV cache memory: %.2f GiB", free/gib)
	if free < 0 {
		return l.fail("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")
	}
	l.info("core.py:210", "init engine (profile, create kv cache, warmup model) took 1.20 seconds")
	l.add("(APIServer pid=1) INFO:     Application startup complete.")
	return Start{Lines: l.lines}
}

func (l *log) llamaCpp(m Machine) Start {
	l.add("ggml_cuda_init: found %d CUDA devices:", len(m.Cards))
	l.add("main: binding port with default address family")
	l.add("main: HTTP server is listening, hostname: 0.0.0.0, port: 8000, http threads: 15")
	l.add("main: loading model")
	l.add("srv    load_model: loading model '%s'", l.Source)
	total := 0.0
	for _, c := range m.Cards {
		total += c
	}
	if need := l.weights(); len(m.Cards) > 0 && need > total*0.98 {
		l.add("ggml_backend_cuda_buffer_type_alloc_buffer: allocating %.2f MiB on device 0: cudaMalloc failed: out of memory", need/float64(len(m.Cards))/(1<<20))
		l.add("llama_model_load: error loading model: unable to allocate CUDA0 buffer")
		l.add("main: exiting due to model loading error")
		return Start{l.lines, 1}
	}
	l.add("main: model loaded")
	l.add("main: server is listening on http://0.0.0.0:8000 - starting the main loop")
	return Start{Lines: l.lines}
}
