package kubesim

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// toNode reports whether a request is answered by a kubelet or a pod.
func toNode(t target) bool {
	return t.sub == "proxy" || t.kind.Kind == "Pod" && slices.Contains([]string{"log", "exec", "attach", "portforward"}, t.sub)
}

// passOn has a kubelet, or a pod, answer.
func (c *Cluster) passOn(w http.ResponseWriter, r *http.Request, t target) {
	c.mu.Lock()
	e := c.get(t.kind, t.namespace, strings.Split(t.name, ":")[0])
	if t.sub == "proxy" && t.kind.Kind == "Service" {
		e = c.get(t.kind, t.namespace, serviceOf(t.name))
	}
	c.mu.Unlock()
	if e == nil {
		answer(w, nil, 0, apierrors.NewNotFound(t.kind.resource(), t.name))
		return
	}
	if t.sub == "proxy" {
		c.proxy(w, r, t, e)
		return
	}
	p := &corev1.Pod{}
	c.mu.Lock()
	p = typed[corev1.Pod](e)
	c.mu.Unlock()
	path, err := kubeletPath(t, p)
	switch {
	case err != nil:
		answer(w, nil, 0, err)
		return
	case p.Spec.NodeName == "":
		answer(w, nil, 0, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", p.Name)))
		return
	}
	var node http.Handler
	if c.outside.Kubelet != nil {
		node = c.outside.Kubelet(p.Spec.NodeName)
	}
	if node == nil {
		answer(w, nil, 0, apierrors.NewInternalError(fmt.Errorf("Get %q: no route to the kubelet", "https://"+p.Spec.NodeName+":10250"+path))) //nolint:staticcheck // the API server's words
		return
	}
	there := r.Clone(r.Context())
	there.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	there.RequestURI = there.URL.RequestURI()
	if t.sub == "log" {
		node.ServeHTTP(&checked{ResponseWriter: w, t: t}, there)
		return
	}
	node.ServeHTTP(w, there)
}

// kubeletPath is where a kubelet answers for a pod (pkg/kubelet/server/server.go).
func kubeletPath(t target, p *corev1.Pod) (string, error) {
	if t.sub == "portforward" {
		return "/portForward/" + t.namespace + "/" + t.name, nil
	}
	name := t.query.Get("container")
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
	verb := map[string]string{"log": "containerLogs", "exec": "exec", "attach": "attach"}[t.sub]
	return "/" + verb + "/" + t.namespace + "/" + t.name + "/" + name, nil
}

// checked turns an error of a kubelet into one of the API.
type checked struct {
	http.ResponseWriter
	t      target
	began  bool
	failed bool
}

// WriteHeader implements http.ResponseWriter.
func (w *checked) WriteHeader(code int) {
	w.began = true
	if code < http.StatusBadRequest {
		w.ResponseWriter.WriteHeader(code)
		return
	}
	w.failed = true
	answer(w.ResponseWriter, nil, 0, apierrors.NewGenericServerResponse(code, "get", w.t.kind.resource(), w.t.name, "", 0, true))
}

// Write implements http.ResponseWriter.
func (w *checked) Write(b []byte) (int, error) {
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
func (w *checked) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *checked) Flush() {
	if !w.failed {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// serviceOf is the name in scheme:name:port.
func serviceOf(name string) string {
	parts := strings.Split(name, ":")
	if len(parts) == 3 {
		return parts[1]
	}
	return parts[0]
}

// proxy passes a request on to a pod, or to one behind a Service, at its address.
func (c *Cluster) proxy(w http.ResponseWriter, r *http.Request, t target, e *entry) {
	scheme, address, err := c.address(t, e)
	if err == nil && c.outside.Dial == nil {
		err = apierrors.NewServiceUnavailable("error trying to reach service: no route to host")
	}
	if err != nil {
		answer(w, nil, 0, err)
		return
	}
	rest := "/" + t.rest
	(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.Path, p.Out.URL.RawPath = scheme, address, rest, ""
			p.Out.Header.Del("Authorization")
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.outside.Dial(ctx, address)
		}},
		ErrorLog: silent(),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			answer(w, nil, 0, apierrors.NewServiceUnavailable("error trying to reach service: "+err.Error()))
		},
	}).ServeHTTP(w, r)
}

// address is where the pod listens, or a ready one behind the Service.
func (c *Cluster) address(t target, e *entry) (scheme, address string, err error) {
	parts := strings.Split(t.name, ":")
	scheme, port := "http", ""
	switch len(parts) {
	case 2:
		port = parts[1]
	case 3:
		port = parts[2]
		if parts[0] == "https" {
			scheme = "https"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch t.kind.Kind {
	case "Pod":
		if port == "" {
			port = "80"
		}
		return scheme, net.JoinHostPort(typed[corev1.Pod](e).Status.PodIP, port), nil
	case "Service":
		s := typed[corev1.Service](e)
		for _, p := range s.Spec.Ports {
			if port != "" && port != p.Name && port != strconv.Itoa(int(p.Port)) {
				continue
			}
			for _, pe := range c.all("pods") {
				pod := typed[corev1.Pod](pe)
				if at := control.PortOf(pod, p); pod.Namespace == s.Namespace && len(s.Spec.Selector) > 0 && matchesSelector(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pod.Labels) && podReady(pod) && at > 0 {
					return scheme, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(at))), nil
				}
			}
		}
		return "", "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", s.Name))
	}
	return "", "", noPath()
}
