// Package conf reads Litestream 0.5's configuration file and URLs of replicas: which databases to replicate, how and where to. It knows
// every setting of that program and its effect here. It is not the command line, which is sqlite/litestream. It opens no file, looks at no
// directory and reads no environment except through its arguments.
package conf
