package jupyterhub

import (
	"net/http"
	"net/http/httputil"
)

// LocalProxy returns a handler that forwards an address of this machine to the hub, for browsers
// that cannot resolve or reach it. The hub sees its own name in every request, so that links,
// cookies and websockets work. Logins through another site redirect to the hub's own name, and
// need it in the browser's DNS.
func (c Client) LocalProxy() (http.Handler, error) {
	way, err := c.reach()
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Transport: way.http.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(way.base)
			r.Out.Host = way.base.Host
			// Servers refuse websockets from pages of another site.
			if r.In.Header.Get("Origin") == "http://"+r.In.Host {
				r.Out.Header.Set("Origin", way.base.String())
			}
			if r.In.Header.Get("Referer") != "" {
				r.Out.Header.Set("Referer", way.base.String()+r.In.URL.Path)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the hub does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}, nil
}
