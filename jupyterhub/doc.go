// Package jupyterhub is a notebook hub with GPU profiles.
package jupyterhub
