//go:build tools

// Package tools names the command this module builds. It has a module of its own because it imports a
// logging library under a spelling that collides with the one the other tools use.
package tools

import _ "github.com/rancher/local-path-provisioner"
