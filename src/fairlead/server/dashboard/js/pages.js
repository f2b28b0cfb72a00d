// Every page, in the order of the navigation. Another page is a module with a line here.
import { addPage } from './router.js';
import jobs from './pages/jobs.js';

[jobs].forEach(addPage);
