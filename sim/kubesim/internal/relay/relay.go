// Package relay passes requests on to kubelets and pods.
package relay

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// KubeletPath is where a kubelet answers for a pod (pkg/kubelet/server/server.go).
func KubeletPath(sub, name string, p *corev1.Pod) (string, error) {
	if sub == "portforward" {
		return "/portForward/" + p.Namespace + "/" + p.Name, nil
	}
	all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	switch {
	case name == "" && len(p.Spec.Containers) == 1:
		name = p.Spec.Containers[0].Name
	case name == "":
		var names []string
		for _, ct := range p.Spec.Containers {
			names = append(names, ct.Name)
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: [%s]", p.Name, strings.Join(names, " ")))
	case !slices.ContainsFunc(all, func(ct corev1.Container) bool { return ct.Name == name }):
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, p.Name))
	}
	verb := map[string]string{"log": "containerLogs", "exec": "exec", "attach": "attach"}[sub]
	return "/" + verb + "/" + p.Namespace + "/" + p.Name + "/" + name, nil
}

// ErrorWriter turns an error of a kubelet into one of the API.
type ErrorWriter struct {
	http.ResponseWriter
	Failed func(code int) // writes the error
	began  bool
	failed bool
}

// WriteHeader implements http.ResponseWriter.
func (w *ErrorWriter) WriteHeader(code int) {
	w.began = true
	if code < http.StatusBadRequest {
		w.ResponseWriter.WriteHeader(code)
		return
	}
	w.failed = true
	w.Failed(code)
}

// Write implements http.ResponseWriter.
func (w *ErrorWriter) Write(b []byte) (int, error) {
	if w.failed {
		return len(b), nil
	}
	if !w.began {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *ErrorWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *ErrorWriter) Flush() {
	if !w.failed {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Proxy passes a request on to an address.
func Proxy(w http.ResponseWriter, r *http.Request, scheme, address, rest string,
	dial func(ctx context.Context, address string) (net.Conn, error), failed func(http.ResponseWriter, error)) {
	(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.Path, p.Out.URL.RawPath = scheme, address, rest, ""
			p.Out.Header.Del("Authorization")
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, address)
		}},
		ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			failed(w, apierrors.NewServiceUnavailable("error trying to reach service: "+err.Error()))
		},
	}).ServeHTTP(w, r)
}
