package hub

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
)

//go:embed pages
var files embed.FS

// maxForm is the size of the largest form that the pages take.
const maxForm = 64 << 10

// view is what all pages show.
type view struct {
	Title string
	User  string // who is logged in
	Wait  bool   // for something that ends in a moment: load the page again
}

// pages are a hub's, for a browser.
type pages struct{ *hub }

// routes adds the pages to what the hub answers.
func (h pages) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /hub/login", h.showLogin)
	mux.HandleFunc("POST /hub/login", small(h.login))
	mux.HandleFunc("GET /hub/oauth_callback", h.endLogin)
	mux.HandleFunc("POST /hub/logout", h.logout)
	mux.HandleFunc("GET /hub/home", h.own(h.showHome))
	mux.HandleFunc("GET /hub/spawn", h.own(h.showProfiles))
	mux.HandleFunc("POST /hub/spawn", small(h.own(h.choseProfile)))
	mux.HandleFunc("GET /hub/spawn-pending/{user}", h.own(h.showProgress))
	mux.HandleFunc("GET /hub/token", h.own(h.showToken))
	mux.HandleFunc("POST /hub/token", small(h.own(h.makeToken)))
	mux.HandleFunc("POST /hub/stop", h.own(h.stopOwn))
	mux.HandleFunc("GET /user/{user}/{$}", h.own(h.showServer))
	mux.HandleFunc("POST /user/{user}/lab/run", small(h.own(h.runCell)))
	mux.HandleFunc("GET /hub/static/{name}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "pages/static/"+r.PathValue("name"))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/hub/home", http.StatusFound) })
}

func small(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next(w, r)
	}
}

// own is for who has logged in, and for nobody else's server.
func (h pages) own(next func(w http.ResponseWriter, r *http.Request, user string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, ok := h.session(r)
		of := r.PathValue("user")
		switch {
		case !ok:
			http.Redirect(w, r, "/hub/login", http.StatusSeeOther)
		case of != "" && of != user:
			h.show(w, http.StatusForbidden, "refused", struct {
				view
				Of string
			}{view{Title: "Not yours", User: user}, of})
		default:
			next(w, r, user)
		}
	}
}

// show writes a page. Nothing that it shows can become a script: it loads none but the lab's own.
func (h pages) show(w http.ResponseWriter, status int, name string, page any) {
	var text bytes.Buffer
	t, err := template.New(name).Funcs(template.FuncMap{"announcement": func() template.HTML { return h.values.Hub.TemplateVars.Announcement }}).ParseFS(files, "pages/layout.html", "pages/"+name+".html")
	if err == nil {
		err = t.ExecuteTemplate(&text, "layout.html", page)
	}
	if err != nil {
		http.Error(w, "the lab's page "+name+": "+err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}
