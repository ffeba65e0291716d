package hub

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

const (
	cellTime = 30 * time.Second // for a cell to run
	maxCell  = 64 << 10         // bytes of its output
)

// firstCells are those that a server's page begins with.
func firstCells() []string {
	return []string{"!nvidia-smi", "!nvidia-smi -L", "!hostname", "!cat /etc/os-release", "!date >> notes.txt; cat notes.txt"}
}

// showServer shows a server's cells.
func (h pages) showServer(w http.ResponseWriter, r *http.Request, user string) {
	pod, err := h.podOfUser(r.Context(), user)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if pod == nil {
		http.Redirect(w, r, "/hub/spawn", http.StatusSeeOther)
		return
	}
	_, profile, _ := h.state(user)
	c := pod.Spec.Containers[0]
	var has []string
	for name, n := range c.Resources.Limits {
		if strings.HasPrefix(string(name), "nvidia.com/") {
			has = append(has, n.String()+" × "+string(name))
		}
	}
	h.show(w, http.StatusOK, "server", struct {
		view
		Profile, Pod, Node, Image, GPUs, Home string
		Cells                                 []string
	}{view{Title: "Server of " + user, User: user}, profile, pod.Name, pod.Spec.NodeName, c.Image, strings.Join(has, ", "), homeOf(pod), firstCells()})
}

// podOfUser returns the pod of a user's server, or nil if it does not run.
func (h *hub) podOfUser(ctx context.Context, user string) (*corev1.Pod, error) {
	name := h.running(user)
	if name == "" {
		return nil, nil
	}
	return h.Client.CoreV1().Pods(h.hubNamespace()).Get(ctx, name, metav1.GetOptions{})
}

// ran is what a cell did.
type ran struct {
	Output string `json:"output"`
	Code   int    `json:"code"` // of the command's exit
}

// runCell runs a cell in the user's pod.
func (h pages) runCell(w http.ResponseWriter, r *http.Request, user string) {
	ctx, cancel := context.WithTimeout(r.Context(), cellTime)
	defer cancel()
	pod, err := h.podOfUser(ctx, user)
	switch {
	case err != nil:
		hubError(w, http.StatusBadGateway, "%v", err)
		return
	case pod == nil:
		hubError(w, http.StatusConflict, "The server does not run any more.")
		return
	}
	out, err := h.runIn(ctx, pod, r.FormValue("code"))
	if err != nil {
		hubError(w, http.StatusBadGateway, "%v", err)
		return
	}
	traffic.Reply(w, out)
}

func (h *hub) runIn(ctx context.Context, pod *corev1.Pod, code string) (ran, error) {
	var commands []string
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		command, is := strings.CutPrefix(line, "!")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case is && !strings.HasPrefix(command, "python"): // a guest's does nothing, and says nothing
			commands = append(commands, command)
		default:
			return ran{Code: 1, Output: fmt.Sprintf("There is no Python in the lab, so this was not run: %s\nA line that starts with ! is a command in the pod, for example !nvidia-smi.\n", line)}, nil
		}
	}
	if len(commands) == 0 {
		return ran{}, nil
	}
	exit, output, err := h.Exec(ctx, pod, []string{"sh", "-c", "cd " + homeOf(pod) + " 2>/dev/null\n" + strings.Join(commands, "\n")})
	if err != nil {
		return ran{}, err
	}
	if ctx.Err() != nil {
		output += fmt.Sprintf("\n(ended after %s)\n", cellTime)
	}
	if len(output) > maxCell {
		output = output[:maxCell] + fmt.Sprintf("\n(%d more bytes are not shown)\n", len(output)-maxCell)
	}
	return ran{Code: exit, Output: strings.ToValidUTF8(output, "\uFFFD")}, nil
}
