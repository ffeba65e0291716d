package harvestersim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
)

// consoleFile is the guest's serial port.
const consoleFile = "/dev/ttyS0"

// kubelet answers for the logs of pods: the serial console of a machine.
func (s *Sim) kubelet(string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/containerLogs/"), "/")
		if len(parts) != 3 || parts[2] != "guest-console-log" {
			http.Error(w, "not simulated", http.StatusNotFound)
			return
		}
		name := strings.TrimPrefix(parts[1], "virt-launcher-")
		name = name[:max(0, strings.LastIndexByte(name, '-'))]
		_, _ = io.WriteString(w, s.Console(r.Context(), parts[0], name))
	})
}

// Console is what a machine that runs has written to its serial console.
func (s *Sim) Console(ctx context.Context, namespace, name string) string {
	s.mu.Lock()
	i := s.running[namespace+"/"+name]
	s.mu.Unlock()
	if i == nil {
		return ""
	}
	var text bytes.Buffer
	if i.machine.Run(ctx, "root", "cat "+consoleFile, &text) != 0 { // nothing has written there
		text.Reset()
	}
	return "SeaBIOS (version 1.16.3-1)\r\n[    0.000000] Linux version 6.8.0\r\n" + strings.ReplaceAll(text.String(), "\n", "\r\n")
}
