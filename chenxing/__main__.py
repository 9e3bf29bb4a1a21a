from chenxing.cli import main

raise SystemExit(main())
