package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceRequest is an HTTP request to a pod behind a Service.
type ServiceRequest struct {
	Namespace, Service string
	Port               string // its name or number
	Path               string // e.g. /health
	Query              url.Values
	Header             http.Header // the API server keeps Authorization for itself
	Body               any         // is sent as JSON by POST; nil: GET
}

// maxRefusal is the most that is read of an answer to find out who refused, in bytes.
const maxRefusal = 64 << 10

// AskService sends a request to a pod behind a Service by way of the API server, so that nothing of the
// cluster's network needs to be reachable from here. The answer's body is read as it comes, until ctx
// ends; the caller closes it. The pod's answer is returned whatever its status is; an *Error
// comes from the API server, such as of a Service without a ready pod.
func (c *Client) AskService(ctx context.Context, r ServiceRequest) (*http.Response, error) {
	doing := fmt.Sprintf("ask service %s/%s for %s", r.Namespace, r.Service, r.Path)
	body, err := encode(r.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	verb := http.MethodGet
	if body != nil {
		verb = http.MethodPost
	}
	u := c.base.JoinPath(path(corev1.SchemeGroupVersion, r.Namespace, "services", r.Service+":"+r.Port, "proxy"), r.Path)
	u.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, verb, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	maps.Copy(req.Header, r.Header)
	req.Header.Set("User-Agent", fieldManager)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, explain(doing, causeOf(ctx, err))
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, explain(doing, causeOf(ctx, err))
	}
	var s metav1.Status
	if err := json.Unmarshal(said, &s); err == nil && s.Kind == "Status" && s.APIVersion == "v1" || resp.StatusCode < http.StatusBadRequest {
		return nil, explain(doing, statusError(resp, said))
	}
	resp.Body = io.NopCloser(bytes.NewReader(said))
	return resp, nil
}

// PodLog returns the last lines that a container of a pod wrote; previous means the container before
// its last restart.
func (c *Client) PodLog(ctx context.Context, namespace, pod, container string, lines int, previous bool) (string, error) {
	query := url.Values{"container": {container}, "tailLines": {strconv.Itoa(lines)}, "limitBytes": {strconv.Itoa(maxLog)}}
	if previous {
		query.Set("previous", "true")
	}
	var text []byte
	err := c.do(ctx, request{doing: fmt.Sprintf("read the log of pod %s/%s", namespace, pod), accept: "*/*",
		path: path(corev1.SchemeGroupVersion, namespace, "pods", pod, "log"), query: query}, &text)
	return string(text), err
}

// maxLog is the most that is read of a log, in bytes.
const maxLog = 256 << 10
