# fish completion for dgx-inspect, written by dgx-inspect --completion fish
complete -c dgx-inspect -l json -d 'print results as JSON, one object per line'
complete -c dgx-inspect -l quiet -s q -d 'print no progress and no notes'
complete -c dgx-inspect -l verbose -s v -d 'print more on standard error; -vv prints even more'
complete -c dgx-inspect -l threads -x -d 'number of threads to use'
complete -c dgx-inspect -l force -d 'replace existing output files'
complete -c dgx-inspect -l color -x -a 'auto always never' -d 'colour messages; NO_COLOR is honoured'
complete -c dgx-inspect -l trust -r -F -d 'accept only these signers: a public key, or a folder of *.pub.pem'
complete -c dgx-inspect -l help -s h -d 'print this help'
complete -c dgx-inspect -l version -d 'print the versions of the program, its formats and libraries'
complete -c dgx-inspect -l completion -x -a 'bash zsh fish' -d 'print a completion script'
complete -c dgx-inspect -n 'not __fish_seen_subcommand_from diff export report' -l check -d 'recompute every digest and signature'
complete -c dgx-inspect -n 'not __fish_seen_subcommand_from diff export report' -a diff -d 'compare two tasks, runs or statements field by field'
complete -c dgx-inspect -n '__fish_seen_subcommand_from diff' -f
complete -c dgx-inspect -n 'not __fish_seen_subcommand_from diff export report' -a export -d 'write a run'\''s model as safetensors or npz'
complete -c dgx-inspect -n '__fish_seen_subcommand_from export' -l step -x -d 'the checkpoint at this step instead of the last'
complete -c dgx-inspect -n '__fish_seen_subcommand_from export' -l output -s o -r -F -d 'file to write the result to'
complete -c dgx-inspect -n 'not __fish_seen_subcommand_from diff export report' -a report -d 'write one page about a task'\''s life (not in this version)'
complete -c dgx-inspect -n '__fish_seen_subcommand_from report' -f
