package modelserver

import (
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
)

// cause is why an engine ended, as its log says.
type cause struct {
	line *regexp.Regexp
	do   string // what to do; $1 is the first group of the line
}

// causes are looked for in this order, each from the end of the log: a traceback ends with what follows
// from the cause. Read in vLLM's v1/core/kv_cache_utils.py and v1/worker, PyTorch's CUDACachingAllocator,
// huggingface_hub's errors, curl's manual (kube/addon/weights.sh), and llama.cpp's ggml-cuda.cu and common/download.cpp; of a driver that is too
// old, in reports of users.
func causes() []cause {
	return []cause{
		{regexp.MustCompile(`larger than the available KV cache memory .*estimated maximum model length is (\d+)`), "write context: $1 or less, cache: fp8, or more gpus"},
		{regexp.MustCompile(`larger than the available KV cache memory|No available memory for the cache blocks`), "write a smaller context, cache: fp8, or more gpus"},
		{regexp.MustCompile(`CUDA out of memory`), "the model needs more memory than its GPUs have: take a quantized one, write a smaller context, or more gpus"},
		{regexp.MustCompile(`cudaMalloc failed: out of memory|failed to allocate CUDA\d+ buffer|unable to allocate CUDA\d+ buffer`), "the model needs more memory than its GPUs have: take a smaller quantization, write a smaller context, or more gpus"},
		{regexp.MustCompile(`Free memory on device .* is less than desired GPU memory utilization`), "another program holds memory of the card: gpu:verify shows its pod"},
		{regexp.MustCompile(`has the digest [0-9a-f]{64}, not [0-9a-f]{64}`), "if you want the file with the first digest, write it as sha256; else write the revision that has the second"},
		{regexp.MustCompile(`GatedRepoError|gated repo|Access to model .* is restricted|401 Client Error|returned error: 40[13]|Invalid (username or password|credentials)`), "accept the model's licence on its page, and write a token that may read it"},
		{regexp.MustCompile(`RepositoryNotFoundError|Repository Not Found|RevisionNotFoundError|is not a valid model identifier|returned error: 404`), "compare source, revision and file with the model's page"},
		{regexp.MustCompile(`No space left on device|curl: \(23\)`), "the volume for the weights is full: give it more space, or delete models from it"},
		{regexp.MustCompile(`Temporary failure in name resolution|Name or service not known|Max retries exceeded|Network is unreachable|couldn't connect to|curl: \((6|7|28)\)`), "the node cannot reach the server that has the weights"},
		{regexp.MustCompile(`NVIDIA driver on your system is too old|CUDA driver version is insufficient for CUDA runtime version`), "this engine needs a newer driver: write a later nvidia.driver.branch, or an image: for the driver that is there"},
		{regexp.MustCompile(`no kernel image is available for execution on the device|requires device with capability|does not support the compute capability`), "the card is too old for this model or engine: take another quantization or engine"},
	}
}

// diagnose finds the cause of an engine's end in its log: the line, and what to do. A cause that is not
// known is the last error of the log, or its last line.
func diagnose(log string) (why string, known bool) {
	lines := strings.Split(log, "\n")
	for _, c := range causes() {
		for i := len(lines) - 1; i >= 0; i-- {
			at := c.line.FindStringSubmatchIndex(lines[i])
			if at == nil {
				continue
			}
			do := c.line.ExpandString(nil, c.do, lines[i], at)
			return strings.TrimSuffix(clean(lines[i]), ".") + ": " + string(do), true
		}
	}
	for _, line := range lines { // of llama.cpp's errors the first is the cause
		if llamaError.MatchString(line) {
			return clean(line), false
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], "Error: ") || strings.Contains(lines[i], "error: ") {
			return clean(lines[i]), false
		}
	}
	return lastLine(log), false
}

// lastLine is the last line of a log that has text.
func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return clean(lines[len(lines)-1])
}

// llamaError is an error in llama.cpp's log: minutes, seconds, milliseconds and microseconds since its start, and the level.
var llamaError = regexp.MustCompile(`^\d+\.\d\d\.\d{3}\.\d{3} E `)

// prefix is what vLLM's logger and its processes, and llama.cpp's logger, write before a line's text.
var prefix = regexp.MustCompile(`^(\d+\.\d\d\.\d{3}\.\d{3} [DIWE] )?(\([\w ]+pid=\d+\) )?(DEBUG|INFO|WARNING|ERROR)? ?(\d\d-\d\d \d\d:\d\d:\d\d )?(\[[\w./]+:\d+\] )?\s*`)

// clean is a line of a log without what its logger adds, at a readable length.
func clean(line string) string {
	return printable.Shorten(prefix.ReplaceAllString(strings.TrimSpace(line), ""))
}
