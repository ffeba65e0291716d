package hub

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// notebook is a user's server: a kernel that runs no Python, but answers the check of
// jupyterhub.Verify with the pod's real resources, and lets CUDA compute on the node's
// simulated cards.
type notebook struct {
	*hub
	pod string
}

// serve lets a server answer at its pod's own address too.
func (h *hub) serve(s *hubServer) {
	release := h.Traffic.Handle(traffic.Place{Namespace: h.hubNamespace(), Workload: s.pod}, serverPort, &notebook{hub: h, pod: s.pod})
	context.AfterFunc(h.ctx, release)
}

// ServeHTTP is Jupyter Server's API, as far as kernels go, and SSH.
func (n *notebook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/user/"), "/")
	switch {
	case path == "api/kernelspecs":
		traffic.Reply(w, map[string]any{"default": "python3", "kernelspecs": map[string]any{"python3": map[string]any{"name": "python3", "spec": map[string]any{"language": "python", "display_name": "Python 3 (simulated)"}}}})
	case path == "api/kernels" && r.Method == http.MethodPost:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"id": rand.Text(), "name": "python3", "execution_state": "starting"})
	case strings.HasPrefix(path, "api/kernels/") && strings.HasSuffix(path, "/channels"):
		websocket.Server{Handler: func(ws *websocket.Conn) { n.talk(r.Context(), ws) }}.ServeHTTP(w, r) //nolint:contextcheck // it is the request's
	case path == "ssh/":
		n.ssh(w, r)
	default:
		hubError(w, http.StatusNotFound, "No such thing in the lab's server: %s", r.URL.Path)
	}
}

// talk answers execute requests until the client goes.
func (n *notebook) talk(ctx context.Context, ws *websocket.Conn) {
	defer func() { _ = ws.Close() }()
	for {
		var m struct {
			Header  map[string]any `json:"header"`
			Content struct {
				Code string `json:"code"`
			} `json:"content"`
		}
		if err := websocket.JSON.Receive(ws, &m); err != nil {
			return
		}
		if m.Header["msg_type"] != "execute_request" {
			continue
		}
		say := func(channel, kind string, content map[string]any) {
			_ = websocket.JSON.Send(ws, map[string]any{
				"channel": channel, "parent_header": m.Header, "metadata": map[string]any{}, "content": content,
				"header": map[string]any{"msg_id": rand.Text(), "msg_type": kind, "session": "lab", "username": "kernel", "version": "5.3", "date": time.Now().UTC().Format(time.RFC3339)},
			})
		}
		say("iopub", "status", map[string]any{"execution_state": "busy"})
		out, err := n.run(ctx, m.Content.Code)
		status := map[string]any{"status": "ok", "execution_count": 1}
		if err != nil {
			say("iopub", "error", map[string]any{"ename": "Simulated", "evalue": err.Error(), "traceback": []string{}})
			status["status"] = "error"
		} else {
			say("iopub", "stream", map[string]any{"name": "stdout", "text": out})
		}
		say("shell", "execute_reply", status)
		say("iopub", "status", map[string]any{"execution_state": "idle"})
	}
}

// question is the first line of the code that verifies a server.
var question = regexp.MustCompile(`(?m)^ASK = (".*")$`) //nolint:gochecknoglobals // a pattern

// run answers the one program that the lab knows.
func (n *notebook) run(ctx context.Context, code string) (string, error) {
	found := question.FindStringSubmatch(code)
	if found == nil {
		return "", fmt.Errorf("the lab's kernel runs no Python, only the question of hub:verify")
	}
	var text string
	var ask struct {
		GPU   bool  `json:"gpu"`
		Limit int64 `json:"limit"`
	}
	if err := json.Unmarshal([]byte(found[1]), &text); err != nil {
		return "", err
	}
	if err := json.Unmarshal([]byte(text), &ask); err != nil {
		return "", err
	}
	pod, err := n.Client.CoreV1().Pods(n.hubNamespace()).Get(ctx, n.pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	saw, err := n.look(ctx, pod, ask.GPU)
	if err != nil {
		return "", err
	}
	answer, err := json.Marshal(saw)
	return "homelab-verify: " + string(answer) + "\n", err
}

// look returns what the code would observe in the pod.
func (n *notebook) look(ctx context.Context, pod *corev1.Pod, gpu bool) (map[string]any, error) {
	c := pod.Spec.Containers[0]
	saw := map[string]any{"python": "3.12.11 (simulated)", "home": "/home/jovyan", "gpus": []any{}, "devices": []any{}, "driver": "", "beyond": false, "problem": ""}
	cpus := c.Resources.Limits.Cpu().AsApproximateFloat64()
	if cpus == 0 {
		node, err := n.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		cpus = node.Status.Capacity.Cpu().AsApproximateFloat64()
	}
	saw["cpus"], saw["memory"], saw["shm"] = cpus, c.Resources.Limits.Memory().Value(), shmOf(pod)
	home := homeOf(pod)
	code, _, err := n.Exec(ctx, pod, []string{"sh", "-c", "mkdir -p " + home + " && echo written > " + home + "/.homelab-verify && rm " + home + "/.homelab-verify"})
	if err != nil {
		return nil, err
	}
	saw["home"], saw["writable"] = home, code == 0
	return saw, n.cards(ctx, pod, gpu, saw)
}

// cards lets each of the pod's cards compute.
func (n *notebook) cards(ctx context.Context, pod *corev1.Pod, gpu bool, saw map[string]any) error {
	code, out, err := n.Exec(ctx, pod, []string{"nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"})
	if err != nil {
		return err
	}
	var names [][2]string
	for line := range strings.Lines(out) {
		if name, memory, ok := strings.Cut(strings.TrimSpace(line), ", "); ok && code == 0 {
			names = append(names, [2]string{name, memory})
		}
	}
	var gpus, devices []any
	for i, card := range names {
		devices = append(devices, "/dev/nvidia"+strconv.Itoa(i))
		if !gpu {
			continue
		}
		code, out, err := n.Exec(ctx, pod, []string{"sh", "-c", "CUDA_VISIBLE_DEVICES=" + strconv.Itoa(i) + " /cuda-samples/vectorAdd"})
		if err != nil {
			return err
		}
		if code != 0 || !strings.Contains(out, "Test PASSED") {
			saw["problem"] = strings.TrimSpace(out)
			continue
		}
		mib, _ := strconv.ParseInt(strings.TrimSuffix(card[1], " MiB"), 10, 64)
		gpus = append(gpus, map[string]any{"name": card[0], "memory": mib << 20})
	}
	if gpu && len(names) == 0 {
		saw["problem"] = "libcuda.so.1 is not there"
	}
	if len(gpus) > 0 {
		saw["driver"] = "13.0"
	}
	saw["gpus"], saw["devices"] = orEmpty(gpus), orEmpty(devices)
	return nil
}

func orEmpty(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

// homeOf is where the user's volume is mounted.
func homeOf(pod *corev1.Pod) string {
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.Name == "home" {
			return m.MountPath
		}
	}
	return "/home/jovyan"
}

// shmOf is the size of /dev/shm: of a volume there, or containerd's 64 MiB.
func shmOf(pod *corev1.Pod) int64 {
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.MountPath != "/dev/shm" {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name && v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
				return v.EmptyDir.SizeLimit.Value()
			}
		}
	}
	return 64 << 20
}
