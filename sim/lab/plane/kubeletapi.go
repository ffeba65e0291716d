package plane

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/converge"
)

// api answers the API server's requests to a kubelet: logs; everything else is not found.
func (k *kubelet) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "the lab's containers are simulated, without "+r.URL.Path, http.StatusNotImplemented)
	})
	return mux
}

// at finds the node whose kubelet listens at an address.
func (k *kubelet) at(address string) (*member, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port != strconv.Itoa(kubeletPort) {
		return nil, false
	}
	for _, m := range k.members() {
		if m.InternalIP.String() == host || m.Name == host {
			return m, true
		}
	}
	return nil, false
}

// noProgram is the log of a container that only appears to run.
const noProgram = "(simulated: this container runs no program)\n"

func (k *kubelet) serveLogs(w http.ResponseWriter, r *http.Request) {
	m, _ := r.Context().Value(memberKey{}).(*member)
	find := func() *corev1.Pod {
		pod, err := k.pods.Pods(r.PathValue("namespace")).Get(r.PathValue("pod"))
		if err != nil || m == nil || pod.Spec.NodeName != m.Name {
			return nil
		}
		return pod
	}
	pod := find()
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	query, container := r.URL.Query(), r.PathValue("container")
	if query.Get("previous") == "true" {
		container += previousLog
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		_, _ = io.WriteString(w, lastLines(cmp.Or(k.logs.of(pod.UID, container), noProgram), query.Get("tailLines")))
		return
	}
	for query.Get("follow") == "true" && pod != nil && !ended(pod) {
		if converge.Pause(r.Context(), 200*time.Millisecond) != nil {
			return
		}
		pod = find()
	}
	if pod == nil {
		return
	}
	_, _ = io.WriteString(w, lastLines(k.logs.of(pod.UID, container), query.Get("tailLines")))
}

// lastLines returns the last n lines, or all when n is not a number.
func lastLines(text, n string) string {
	limit, err := strconv.Atoi(n)
	if err != nil {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines[max(0, len(lines)-limit):], "")
}
