// Package conf reads what Litestream 0.5 is told which databases to replicate, how and where to: its configuration file and the URLs
// of replicas. It knows every setting of that program and says what each is worth here. It is not the command line, which is sqlite/litestream;
// it opens no file, looks at no directory and reads no environment but through what it is given.
package conf
